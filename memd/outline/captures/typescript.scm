; TypeScript, in addition to ecmascript.scm

(class_declaration name: (type_identifier) @name body: (_) @body) @def.class
(abstract_class_declaration name: (type_identifier) @name body: (_) @body) @def.class
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @def.class
(enum_declaration name: (identifier) @name body: (_) @body) @def.class
(interface_declaration name: (type_identifier) @name body: (_) @body) @def.interface
(type_alias_declaration name: (type_identifier) @name) @def.type
(internal_module name: (identifier) @name body: (_) @body) @def.module
(module name: (identifier) @name body: (_) @body) @def.module
(method_signature name: (property_identifier) @name) @def.function
(abstract_method_signature name: (property_identifier) @name) @def.function
(public_field_definition name: (property_identifier) @name value: (arrow_function body: (_) @body)) @def.function

(class_heritage (extends_clause value: [(identifier) (member_expression)] @ref.inherits))
(class_heritage (implements_clause [(type_identifier) (nested_type_identifier)] @ref.implements))
(class_heritage (implements_clause (generic_type name: (type_identifier) @ref.implements)))
(extends_type_clause [(type_identifier) (nested_type_identifier)] @ref.inherits)
(extends_type_clause (generic_type name: (type_identifier) @ref.inherits))
(type_annotation [(type_identifier) (nested_type_identifier)] @ref.uses_type)
(generic_type name: (type_identifier) @ref.uses_type)
(type_arguments (type_identifier) @ref.uses_type)
(array_type (type_identifier) @ref.uses_type)
(union_type (type_identifier) @ref.uses_type)
(decorator [(identifier) (member_expression)] @ref.decorates)
(decorator (call_expression function: [(identifier) (member_expression)] @ref.decorates))

(public_field_definition name: (property_identifier) @bind.part type: (type_annotation (type_identifier) @type))
(public_field_definition name: (property_identifier) @bind.part
  value: (new_expression constructor: (identifier) @type))
(required_parameter (accessibility_modifier) pattern: (identifier) @bind.part
  type: (type_annotation (type_identifier) @type))
(required_parameter pattern: (identifier) @bind)
(required_parameter pattern: (identifier) @bind type: (type_annotation (type_identifier) @type))
(optional_parameter pattern: (identifier) @bind)
(optional_parameter pattern: (identifier) @bind type: (type_annotation (type_identifier) @type))
(variable_declarator name: (identifier) @bind type: (type_annotation (type_identifier) @type))

(import_statement (import_require_clause (identifier) @alias source: (string (string_fragment) @module))) @import
