; Java. memd/outline/languages.py explains the captures.

(package_declaration [(identifier) (scoped_identifier)] @package)
(class_declaration name: (identifier) @name body: (_) @body) @def.class
(record_declaration name: (identifier) @name body: (_) @body) @def.class
(enum_declaration name: (identifier) @name body: (_) @body) @def.class
(interface_declaration name: (identifier) @name body: (_) @body) @def.interface
(annotation_type_declaration name: (identifier) @name body: (_) @body) @def.interface
(method_declaration name: (identifier) @name body: (_)? @body) @def.function
(constructor_declaration name: (identifier) @name body: (_) @body) @def.function
(enum_constant name: (identifier) @name) @def.constant
(field_declaration (modifiers "static" "final")
  declarator: (variable_declarator name: (identifier) @name)) @def.constant
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @def.constant

(superclass (type_identifier) @ref.inherits)
(superclass (scoped_type_identifier) @ref.inherits)
(superclass (generic_type [(type_identifier) (scoped_type_identifier)] @ref.inherits))
(super_interfaces (type_list [(type_identifier) (scoped_type_identifier)] @ref.implements))
(super_interfaces (type_list (generic_type [(type_identifier) (scoped_type_identifier)] @ref.implements)))
(extends_interfaces (type_list [(type_identifier) (scoped_type_identifier)] @ref.inherits))
(extends_interfaces (type_list (generic_type [(type_identifier) (scoped_type_identifier)] @ref.inherits)))
(method_invocation !object name: (identifier) @ref.calls)
(method_invocation object: (_) @head name: (identifier) @tail) @ref.calls
(object_creation_expression type: [(type_identifier) (scoped_type_identifier)] @ref.calls)
(object_creation_expression type: (generic_type [(type_identifier) (scoped_type_identifier)] @ref.calls))
(type_identifier) @ref.uses_type
[(marker_annotation name: (_) @ref.decorates) (annotation name: (_) @ref.decorates)]

[(block) (lambda_expression) (for_statement) (enhanced_for_statement) (catch_clause)] @scope
(formal_parameter type: [(type_identifier) @type (generic_type (type_identifier) @type)] name: (identifier) @bind)
(formal_parameter name: (identifier) @bind)
(local_variable_declaration declarator: (variable_declarator name: (identifier) @bind))
(local_variable_declaration type: [(type_identifier) @type (generic_type (type_identifier) @type)]
  declarator: (variable_declarator name: (identifier) @bind))
(field_declaration type: [(type_identifier) @type (generic_type (type_identifier) @type)]
  declarator: (variable_declarator name: (identifier) @bind))
(field_declaration declarator: (variable_declarator name: (identifier) @bind))
(enhanced_for_statement type: (type_identifier) @type name: (identifier) @bind)
(enhanced_for_statement name: (identifier) @bind)
(catch_formal_parameter name: (identifier) @bind)
(inferred_parameters (identifier) @bind)
(lambda_expression parameters: (identifier) @bind)

(import_declaration [(identifier) @name (scoped_identifier scope: (_) @module name: (identifier) @name)] . ";") @import
(import_declaration [(identifier) (scoped_identifier)] @module (asterisk) @name) @import
