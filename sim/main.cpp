#include "programs/output/terminal.h"
#include "sim/program.h"

int main(int argc, char** argv) {
  batchflow::output::open_standard_streams();
  batchflow::output::catch_signals();
  return batchflow::sim::run_program({argv + (argc > 0), argv + argc});
}
