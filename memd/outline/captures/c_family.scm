; What C and C++ share. memd/outline/languages.py explains the captures.

(struct_specifier name: (type_identifier) @name body: (_) @body) @def.class
(union_specifier name: (type_identifier) @name body: (_) @body) @def.class
(enum_specifier name: (type_identifier) @name body: (_)) @def.type
(type_definition declarator: (type_identifier) @name) @def.type
(preproc_def name: (identifier) @name value: (_)) @def.constant
(preproc_function_def name: (identifier) @name) @def.function
(enumerator name: (identifier) @name) @def.constant

(call_expression function: [(identifier) (field_expression)] @ref.calls)
(type_identifier) @ref.uses_type

[(compound_statement) (for_statement)] @scope
(parameter_declaration declarator: (identifier) @bind)
(parameter_declaration type: (type_identifier) @type
  declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)])
(declaration declarator: (identifier) @bind)
(declaration type: (type_identifier) @type declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)])
(init_declarator declarator: (identifier) @bind)
(declaration type: (type_identifier) @type
  declarator: (init_declarator declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)]))

(preproc_include path: [(system_lib_string) @module (string_literal (string_content) @module)]) @import
