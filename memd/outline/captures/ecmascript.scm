; What JavaScript and TypeScript share. memd/outline/languages.py explains the captures.

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

(import_statement (import_clause (named_imports (import_specifier name: _ @name alias: (_)? @alias)))
  source: (string (string_fragment) @module)) @import
(import_statement (import_clause (namespace_import (identifier) @alias)) source: (string (string_fragment) @module)) @import
(import_statement (import_clause (identifier) @alias)
  source: (string (string_fragment) @module) (#set! name "default")) @import
(import_statement . "import" . source: (string (string_fragment) @module)) @import
(export_statement (export_clause (export_specifier name: _ @name alias: _? @alias))
  source: (string (string_fragment) @module)) @import
(export_statement "*" @name source: (string (string_fragment) @module)) @import
(export_statement (namespace_export (_) @alias) source: (string (string_fragment) @module)) @import
(variable_declarator
  name: [(identifier) @alias (array_pattern) @alias
    (object_pattern [(shorthand_property_identifier_pattern) @name (rest_pattern) @name
      (object_assignment_pattern left: (_) @name) (pair_pattern key: (_) @name value: (_) @alias)])]
  value: (call_expression function: (identifier) @_require
    arguments: (arguments . [(string (string_fragment) @module) (template_string (string_fragment) @module)]))
  (#eq? @_require "require")) @import
