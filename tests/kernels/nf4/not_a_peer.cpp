// A shared library, but no bitsandbytes.
extern "C" int something_else() { return 1; }
