; Python. memd/outline/languages.py explains the captures.

(class_definition name: (identifier) @name body: (_) @body) @def.class
(class_definition superclasses: (argument_list [(identifier) (attribute)] @ref.inherits))
(class_definition superclasses: (argument_list (subscript value: [(identifier) (attribute)] @ref.inherits)))
(function_definition name: (identifier) @name body: (_) @body) @def.function
(type_alias_statement left: (type [(identifier) @name (generic_type . (identifier) @name)])) @def.type
(assignment left: (identifier) @name (#match? @name "^_*[A-Z][A-Z0-9_]*$")) @def.constant
(assignment left: (pattern_list (identifier) @name (#match? @name "^_*[A-Z][A-Z0-9_]*$"))) @def.constant
(assignment left: (tuple_pattern (identifier) @name (#match? @name "^_*[A-Z][A-Z0-9_]*$"))) @def.constant

(call function: [(identifier) (attribute)] @ref.calls)
(decorator [(identifier) (attribute)] @ref.decorates)
(decorator (call function: [(identifier) (attribute)] @ref.decorates))
(type) @types

[(lambda) (list_comprehension) (set_comprehension) (dictionary_comprehension) (generator_expression)] @scope
(assignment left: (identifier) @bind)
(assignment left: (identifier) @bind right: (call function: [(identifier) (attribute)] @type))
(assignment left: (identifier) @bind type: (type [(identifier) (attribute) (string)] @type))
(assignment left: (attribute object: (identifier) @_self attribute: (identifier) @bind.part)
  right: [(identifier) @type (call function: [(identifier) (attribute)] @type)] (#eq? @_self "self"))
(assignment left: (attribute object: (identifier) @_self attribute: (identifier) @bind.part)
  type: (type [(identifier) (attribute) (string)] @type) (#eq? @_self "self"))
(pattern_list (identifier) @bind)
(tuple_pattern (identifier) @bind)
(list_pattern (identifier) @bind)
(list_splat_pattern (identifier) @bind)
(dictionary_splat_pattern (identifier) @bind)
(augmented_assignment left: (identifier) @bind)
(named_expression name: (identifier) @bind.outer)
(for_statement left: (identifier) @bind)
(for_in_clause left: (identifier) @bind)
(as_pattern_target (identifier) @bind)
(with_item value: (as_pattern (call function: [(identifier) (attribute)] @type)
  alias: (as_pattern_target (identifier) @bind)))
(parameters (identifier) @bind)
(lambda_parameters (identifier) @bind)
(default_parameter name: (identifier) @bind)
(typed_parameter (identifier) @bind)
(typed_parameter (identifier) @bind type: (type [(identifier) (attribute) (string)] @type))
(typed_default_parameter name: (identifier) @bind)
(typed_default_parameter name: (identifier) @bind type: (type [(identifier) (attribute) (string)] @type))
(case_pattern (dotted_name . (identifier) @bind .))
(delete_statement (identifier) @bind)
(global_statement (identifier) @bind.global)
(nonlocal_statement (identifier) @bind.global)

(import_statement name: [(dotted_name) @module
  (aliased_import name: (dotted_name) @module alias: (identifier) @alias)]) @import
(import_from_statement module_name: (_) @module name: [(dotted_name) @name
  (aliased_import name: (dotted_name) @name alias: (identifier) @alias)]) @import
(import_from_statement module_name: (_) @module (wildcard_import) @name) @import
(future_import_statement "__future__" @module name: [(dotted_name) @name
  (aliased_import name: (dotted_name) @name alias: (identifier) @alias)]) @import
(ERROR "from" "__future__" @module "import" "*" @name) @import
