; Rust. memd/outline/languages.py explains the captures.

(struct_item name: (type_identifier) @name body: (_)? @body) @def.class
(enum_item name: (type_identifier) @name body: (_) @body) @def.class
(union_item name: (type_identifier) @name body: (_) @body) @def.class
(trait_item name: (type_identifier) @name body: (_) @body) @def.interface
(type_item name: (type_identifier) @name) @def.type
(function_item name: (identifier) @name body: (_) @body) @def.function
(function_signature_item name: (identifier) @name) @def.function
(macro_definition name: (identifier) @name) @def.function
(const_item name: (identifier) @name) @def.constant
(static_item name: (identifier) @name) @def.constant
(mod_item name: (identifier) @name body: (_) @body) @def.module
(impl_item type: (_) @owner body: (_) @body) @impl

(impl_item trait: [(type_identifier) (scoped_type_identifier)] @ref.implements)
(impl_item trait: (generic_type type: [(type_identifier) (scoped_type_identifier)] @ref.implements))
(trait_bounds [(type_identifier) (scoped_type_identifier)] @ref.inherits)
(call_expression function: [(identifier) (scoped_identifier) (field_expression)] @ref.calls)
(call_expression
  function: (generic_function function: [(identifier) (scoped_identifier) (field_expression)] @ref.calls))
(macro_invocation macro: [(identifier) (scoped_identifier)] @ref.calls)
(struct_expression name: [(type_identifier) (scoped_type_identifier)] @ref.calls)
(attribute [(identifier) (scoped_identifier)] @ref.decorates)
[(type_identifier) (scoped_type_identifier)] @ref.uses_type

[(closure_expression) (block) (match_arm)] @scope
(parameter pattern: (identifier) @bind)
(parameter pattern: (identifier) @bind type: [(type_identifier) @type (reference_type type: (type_identifier) @type)])
(let_declaration pattern: (identifier) @bind)
(let_declaration pattern: (identifier) @bind type: (type_identifier) @type)
(let_declaration pattern: (identifier) @bind value: (struct_expression name: (type_identifier) @type))
(let_declaration pattern: (identifier) @bind
  value: (call_expression function: (scoped_identifier path: (identifier) @type (#match? @type "^[A-Z]"))))
(tuple_pattern (identifier) @bind)
(closure_parameters (identifier) @bind)
(for_expression pattern: (identifier) @bind)
(match_pattern (identifier) @bind)
(tuple_struct_pattern type: (_) (identifier) @bind)

(use_declaration argument: (_) @tree) @import
(mod_item !body name: (identifier) @name (#set! module "self")) @import
