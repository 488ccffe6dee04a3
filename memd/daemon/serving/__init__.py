"""The socket and what is sent on it: answers, notifications, the sessions of agents."""
