"""The language of questions and notes: words, operators, times, and the lines that can answer by themselves. Pure."""
