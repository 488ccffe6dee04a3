; C++, in addition to c_family.scm

(class_specifier name: (type_identifier) @name body: (_) @body) @def.class
(namespace_definition name: (namespace_identifier) @name body: (_) @body) @def.module
(alias_declaration name: (type_identifier) @name) @def.type
(function_definition declarator: (function_declarator
  declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name) body: (_) @body) @def.function
(function_definition declarator: (pointer_declarator (function_declarator
  declarator: [(identifier) (field_identifier)] @name)) body: (_) @body) @def.function
(function_definition declarator: (reference_declarator (function_declarator
  declarator: [(identifier) (field_identifier) (operator_name)] @name)) body: (_) @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name)) body: (_) @body) @def.function
(function_definition declarator: (pointer_declarator (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: (identifier) @name))) body: (_) @body) @def.function
(function_definition declarator: (reference_declarator (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: (identifier) @name))) body: (_) @body) @def.function

; The same with a namespace before the class.
(function_definition declarator: (function_declarator declarator: (qualified_identifier
  name: (qualified_identifier
    scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name))) body: (_) @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier
  name: (qualified_identifier name: (qualified_identifier
    scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name)))) body: (_) @body) @def.function
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier
  name: (qualified_identifier scope: (_) @owner name: (identifier) @name)))) body: (_) @body) @def.function

(base_class_clause [(type_identifier) (qualified_identifier)] @ref.inherits)
(base_class_clause (template_type name: (type_identifier) @ref.inherits))
(call_expression function: (qualified_identifier) @ref.calls)
(call_expression function: (template_function name: (identifier) @ref.calls))
(new_expression type: [(type_identifier) (qualified_identifier)] @ref.calls)
(parameter_declaration type: (qualified_identifier) @type
  declarator: [(identifier) @bind (pointer_declarator (identifier) @bind) (reference_declarator (identifier) @bind)])
(declaration type: (qualified_identifier) @type declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)
  (init_declarator declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)])])
(lambda_expression) @scope
