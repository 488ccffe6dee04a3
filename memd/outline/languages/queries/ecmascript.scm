; What JavaScript and TypeScript share. memd/outline/language.py explains the captures.

(function_declaration name: (identifier) @name body: (_) @body) @def.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @def.function
(method_definition name: [(property_identifier) (private_property_identifier)] @name body: (_) @body) @def.function
(lexical_declaration (variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.function)
(variable_declaration (variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.function)
(lexical_declaration kind: "const" (variable_declarator name: (identifier) @name
  (#match? @name "^[A-Z][A-Z0-9_]*$")) @def.constant)

(call_expression function: [(identifier) (member_expression)] @ref.calls)
(new_expression constructor: [(identifier) (member_expression)] @ref.calls)

[(arrow_function) (function_expression) (statement_block) (for_in_statement) (for_statement) (catch_clause)] @scope
(variable_declarator name: (identifier) @bind)
(variable_declarator name: (identifier) @bind
  value: (new_expression constructor: [(identifier) (member_expression)] @type))
(assignment_expression left: (member_expression object: (this) property: (property_identifier) @bind.part)
  right: [(identifier) @type (new_expression constructor: (identifier) @type)])
(object_pattern (shorthand_property_identifier_pattern) @bind)
(array_pattern (identifier) @bind)
(rest_pattern (identifier) @bind)
(for_in_statement left: (identifier) @bind)
(catch_clause parameter: (identifier) @bind)
(arrow_function parameter: (identifier) @bind)

(import_statement) @import
(export_statement source: (string)) @import
(variable_declarator value: (call_expression function: (identifier) @_require (#eq? @_require "require"))) @import
