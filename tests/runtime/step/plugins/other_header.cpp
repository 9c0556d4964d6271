// Of this version's number, and another header.
#include "batchflow_step.h"

static int create(const bf_step_setup*, bf_step_array*, void**) {
  return BF_STEP_DONE;
}
static int run(void*, bf_step_sample*) {
  return BF_STEP_DONE;
}
const bf_step_plugin bf_step_entry = {
    sizeof(bf_step_plugin), BF_STEP_ABI_VERSION, 1, "other", "1", 0, create, run};
