"""memd for agents that speak MCP: tools, resources and a prompt over one callable, `ask(method, params)`."""
