; JavaScript, in addition to ecmascript.scm

(class_declaration name: (identifier) @name body: (_) @body) @def.class
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @def.class
(class_heritage [(identifier) (member_expression)] @ref.inherits)
(formal_parameters (identifier) @bind)
(assignment_pattern left: (identifier) @bind)
(decorator [(identifier) (member_expression)] @ref.decorates)
(decorator (call_expression function: [(identifier) (member_expression)] @ref.decorates))
