"""memd for agents that speak MCP: tools, resources and a prompt over one callable, `call(method, params)`."""
