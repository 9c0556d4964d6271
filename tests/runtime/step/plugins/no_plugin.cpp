// A library like any other.
extern "C" int nothing_of_steps() {
  return 1;
}
