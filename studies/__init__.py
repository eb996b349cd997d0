"""Studies of the zoo: experiments, the plots and metrics they record, and the pages made from recorded results."""
