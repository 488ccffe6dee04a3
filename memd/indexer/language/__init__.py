"""What a question and a note say: words, operators, times, and the lines that can answer by themselves. Pure."""
