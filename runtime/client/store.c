/* Puts texts into a feed of `bytes`, subscribes to them, and gets them by key (docs/store.md):
 *
 *   batchflow-store put FOLDER TEXT...
 *   batchflow-store subscribe FEED [POSITION]
 *   batchflow-store get FEED KEY...
 *
 * FOLDER is the folder of the feed, and FEED its name at the service. `subscribe` prints each
 * record from POSITION on, until the feed ends. Exit code: 0 done, 1 an error, 2 bad usage.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batchflow.h"

static int failed(const char* what) {
  fprintf(stderr, "batchflow-store: %s: %s\n", what, bf_last_error());
  return 1;
}

/* The first field of one sample: in a feed of `bytes`, the bytes of the record. */
static int print(uint64_t key, const bf_array* field) {
  if (field->offsets == NULL) {
    fprintf(stderr, "batchflow-store: a record is an array of numbers; name a feed of bytes\n");
    return 1;
  }
  printf("%" PRIu64 " ", key);
  fwrite((const char*)field->values + field->offsets[0], 1,
         (size_t)(field->offsets[1] - field->offsets[0]), stdout);
  printf("\n");
  return 0;
}

static int put(const char* folder, char** texts, int count) {
  bf_feed_options options = BF_FEED_OPTIONS_INIT;
  options.folder = folder;
  options.producer = "batchflow-store";
  bf_feed* feed;
  if (bf_feed_open(&options, &feed) != BF_OK) return failed("open");
  for (int i = 0; i < count; ++i) {
    bf_record record = BF_RECORD_INIT;
    record.bytes = texts[i];
    record.count = strlen(texts[i]);
    if (bf_feed_put(feed, &record) != BF_OK) return failed("put");
  }
  if (bf_feed_flush(feed, 0) != BF_OK) return failed("flush");
  bf_feed_close(feed);
  return 0;
}

static int subscribe(const char* name, const char* position) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.dataset = name;
  options.pipeline = "bytes";
  options.order = BF_LIVE;
  options.batch_samples = 1;
  options.has_begin_at = position != NULL;
  options.begin_at = position != NULL ? strtoull(position, NULL, 10) : 0;
  bf_loader* loader;
  if (bf_loader_open(&options, &loader) != BF_OK) return failed("subscribe");
  bf_batch batch = BF_BATCH_INIT;
  bf_status status = BF_OK;
  int wrong = 0;
  while (!wrong && ((status = bf_loader_next(loader, &batch)) == BF_OK || status == BF_TIMEOUT)) {
    if (status == BF_TIMEOUT) continue; /* the feed is quiet */
    wrong = print(batch.keys[0], &batch.arrays[0]);
    bf_batch_release(loader, batch.handle);
  }
  if (!wrong && status != BF_END) return failed("subscribe");
  bf_loader_close(loader);
  return wrong;
}

static int get(const char* name, char** keys, int count) {
  bf_store_options options = BF_STORE_OPTIONS_INIT;
  options.dataset = name;
  options.pipeline = "bytes";
  bf_store* store;
  if (bf_store_open(&options, &store) != BF_OK) return failed("open");
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t key = strtoull(keys[i], NULL, 10);
    bf_value value;
    if (bf_store_get(store, &key, 1, &value) != BF_OK) return failed("get");
    if (value.status == BF_OK) {
      wrong |= print(key, &value.arrays[0]);
    } else {
      printf("%" PRIu64 " is %s\n", key, value.status == BF_ABSENT ? "absent" : "corrupt");
    }
    bf_value_release(&value);
  }
  bf_store_close(store);
  return wrong;
}

int main(int argc, char** argv) {
  const char* operation = argc > 2 ? argv[1] : "";
  if (strcmp(operation, "put") == 0 && argc > 3) return put(argv[2], argv + 3, argc - 3);
  if (strcmp(operation, "subscribe") == 0 && argc < 5) return subscribe(argv[2], argv[3]);
  if (strcmp(operation, "get") == 0 && argc > 3) return get(argv[2], argv + 3, argc - 3);
  fprintf(stderr,
          "Usage: batchflow-store put FOLDER TEXT...\n"
          "       batchflow-store subscribe FEED [POSITION]\n"
          "       batchflow-store get FEED KEY...\n");
  return 2;
}
