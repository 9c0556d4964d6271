/* Reads batches as a training program would, and prints them and how long it waited:
 *
 *   batchflow-example DATASET [BATCHES [BATCH_SAMPLES [COMPUTE_MS [PIPELINE]]]]
 *
 * DATASET is a name at the service, or a path. Exit code: 0 done, 1 an error, 2 bad usage.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "batchflow.h"

static int failed(const char* what) {
  fprintf(stderr, "batchflow-example: %s: %s\n", what, bf_last_error());
  return 1;
}

static void compute(long milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > 6) {
    fprintf(stderr,
            "Usage: batchflow-example DATASET [BATCHES [BATCH_SAMPLES [COMPUTE_MS [PIPELINE]]]]\n");
    return 2;
  }
  const uint64_t batches = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
  const long compute_ms = argc > 4 ? strtol(argv[4], NULL, 10) : 0;

  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.dataset = argv[1];
  options.batch_samples = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 32;
  options.steps = batches;
  options.pipeline = argc > 5 ? argv[5] : NULL;

  bf_loader* loader;
  if (bf_loader_open(&options, &loader) != BF_OK) return failed("open");

  bf_loader_info info = BF_LOADER_INFO_INIT;
  if (bf_loader_info_get(loader, &info) != BF_OK) return failed("info");
  printf("%" PRIu64 " samples, %" PRIu64 " steps an epoch, fields:", info.dataset_samples,
         info.steps_per_epoch);
  for (uint32_t i = 0; i < info.fields; ++i) printf(" %s", info.field[i].name);
  printf("\n");

  bf_batch batch = BF_BATCH_INIT;
  bf_status status = BF_OK;
  for (uint64_t i = 0; i < batches && (status = bf_loader_next(loader, &batch)) == BF_OK; ++i) {
    printf("step %" PRIu64 " of epoch %" PRIu32 ": %" PRIu32 " samples, keys", batch.step,
           batch.epoch, batch.samples);
    for (uint32_t k = 0; k < batch.samples && k < 4; ++k) printf(" %" PRIu64, batch.keys[k]);
    printf(batch.samples > 4 ? " ...\n" : "\n");
    compute(compute_ms);
    bf_batch_release(loader, batch.handle);
  }
  if (status != BF_OK && status != BF_END) return failed("next");

  bf_loader_times times = BF_LOADER_TIMES_INIT;
  if (bf_loader_times_get(loader, &times) != BF_OK) return failed("times");
  printf("%" PRIu64 " batches, %" PRIu64 " samples: %.3f s stalled, %.3f s computed\n",
         times.batches, times.samples, times.wait_s, times.between_s);
  bf_loader_close(loader);
  return 0;
}
