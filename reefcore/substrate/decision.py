"""How a frame is decided: the alpha curve, what a mistake costs, and a rule that looks where patches lie."""
