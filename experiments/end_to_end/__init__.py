"""Table I and Figure 4 of arXiv 2604.02556 on transformers and bitsandbytes.

torch and transformers are imported by build, generate, gpu, measure, reference and rounds
alone.
"""

import logging

# Before it is imported: its remarks are not for the user.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

SEED = 1  # of all that is drawn: prompts, weights, the order of rows
