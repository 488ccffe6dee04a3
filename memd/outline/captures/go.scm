; Go. memd/outline/languages.py explains the captures.

(package_clause (package_identifier) @package)
(function_declaration name: (identifier) @name body: (block)? @body) @def.function
(method_declaration
  receiver: (parameter_list (parameter_declaration
    type: [(type_identifier) (pointer_type) (generic_type)] @owner))
  name: (field_identifier) @name body: (block)? @body) @def.function
(method_declaration receiver: (parameter_list (parameter_declaration
  name: (identifier) @bind type: [(type_identifier) @type (pointer_type (type_identifier) @type)])))
(type_spec name: (type_identifier) @name type: (interface_type) @body) @def.interface
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @def.class
(type_spec name: (type_identifier) @name
  type: [(type_identifier) (qualified_type) (pointer_type) (slice_type) (array_type) (map_type) (channel_type)
         (function_type) (generic_type) (parenthesized_type)]) @def.type
(type_alias name: (type_identifier) @name) @def.type
(const_spec name: (identifier) @name) @def.constant
(interface_type (method_elem name: (field_identifier) @name) @def.function)

(call_expression function: [(identifier) (selector_expression)] @ref.calls)
(struct_type (field_declaration_list
  (field_declaration !name type: [(type_identifier) (qualified_type)] @ref.inherits)))
(struct_type (field_declaration_list
  (field_declaration !name type: (pointer_type [(type_identifier) (qualified_type)] @ref.inherits))))
(interface_type (type_elem [(type_identifier) (qualified_type)] @ref.inherits))
(type_identifier) @ref.uses_type
(qualified_type) @ref.uses_type

[(func_literal) (block)] @scope
(parameter_declaration name: (identifier) @bind)
(parameter_declaration name: (identifier) @bind type: [(type_identifier) @type (qualified_type) @type
  (pointer_type [(type_identifier) (qualified_type)] @type)])
(short_var_declaration left: (expression_list (identifier) @bind))
(short_var_declaration left: (expression_list . (identifier) @bind)
  right: (expression_list . [(composite_literal type: [(type_identifier) (qualified_type)] @type)
    (unary_expression operand: (composite_literal type: [(type_identifier) (qualified_type)] @type))]))
(var_spec name: (identifier) @bind)
(var_spec name: (identifier) @bind type: [(type_identifier) @type (qualified_type) @type
  (pointer_type [(type_identifier) (qualified_type)] @type)])
(range_clause left: (expression_list (identifier) @bind))

(import_spec !name path: (_ (_) @module)) @import
(import_spec name: [(package_identifier) (blank_identifier)] @alias path: (_ (_) @module)) @import
(import_spec name: (dot) path: (_ (_) @module) (#set! name "*")) @import
