// A shared library that is not bitsandbytes.
extern "C" int something_else() { return 1; }
