"""Table I and Figure 4 of arXiv 2604.02556 on transformers and bitsandbytes.

torch and transformers are imported by build, generate, gpu, measure, rows and advise alone.
"""
