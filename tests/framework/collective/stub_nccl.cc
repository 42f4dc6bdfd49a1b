// An NCCL that is too old, or has lost its functions.
extern "C" int ncclGetVersion(int* version) {
  *version = BELFRY_STUB_NUMBER;
  return 0;
}
