/* Sends each line of standard input to a feed of `bytes`, as a record (docs/live.md):
 *
 *   batchflow-producer FEED PRODUCER < lines
 *
 * FEED is the folder of the feed, or tcp://HOST:PORT/NAME. PRODUCER is a name that no other
 * producer of the feed has. Exit code: 0 each line is acknowledged, 1 an error, 2 bad usage.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "batchflow.h"

static int failed(const char* what) {
  fprintf(stderr, "batchflow-producer: %s: %s\n", what, bf_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "Usage: batchflow-producer FEED PRODUCER < lines\n");
    return 2;
  }
  bf_feed_options options = BF_FEED_OPTIONS_INIT;
  options.folder = argv[1];
  options.producer = argv[2];
  bf_feed* feed;
  if (bf_feed_open(&options, &feed) != BF_OK) return failed("open");

  char* line = NULL;
  size_t room = 0;
  ssize_t length;
  uint64_t lines = 0;
  while ((length = getline(&line, &room, stdin)) > 0) {
    if (line[length - 1] == '\n') --length;
    if (length == 0) continue; /* a record has one byte at least */
    bf_record record = BF_RECORD_INIT;
    record.bytes = line;
    record.count = (size_t)length;
    record.key = ++lines;
    bf_status status;
    do /* the feed may have no room for a long time */
      status = bf_feed_put(feed, &record);
    while (status == BF_TIMEOUT);
    if (status != BF_OK) return failed("put");
  }
  free(line);
  if (ferror(stdin)) {
    perror("batchflow-producer: standard input");
    return 1;
  }

  bf_status status;
  do /* until all are on the feed's drive */
    status = bf_feed_flush(feed, 0);
  while (status == BF_TIMEOUT);
  if (status != BF_OK) return failed("flush");
  printf("%" PRIu64 " lines are acknowledged\n", lines);
  bf_feed_close(feed);
  return 0;
}
