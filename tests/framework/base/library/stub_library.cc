// A library in the place of one of NVIDIA's.
extern "C" int belfry_stub_number() { return BELFRY_STUB_NUMBER; }
