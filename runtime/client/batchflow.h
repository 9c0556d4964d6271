/* The C interface of BatchFlow: batches of training data from the service, in place.
 *
 *   bf_loader_options options = BF_LOADER_OPTIONS_INIT;
 *   options.dataset = "imagenet";
 *   options.pipeline = "imagenet-train";
 *   options.batch_samples = 256;
 *   options.epochs = 90;
 *   bf_loader* loader;
 *   if (bf_loader_open(&options, &loader) != BF_OK) { puts(bf_last_error()); exit(1); }
 *   bf_batch batch = BF_BATCH_INIT;
 *   while (bf_loader_next(loader, &batch) == BF_OK) {
 *     train(batch.arrays[0].values, ...);
 *     bf_batch_release(loader, batch.handle);
 *   }
 *   bf_loader_close(loader);
 *
 * Arrays of a batch are the service's own memory, mapped read-only: writing to them ends the
 * process. They stay as they are until the batch is released, by any thread, once (twice does no
 * harm). Nothing here waits without a bound: `timeout_s` is the longest that bf_loader_next waits,
 * `reconnect_s` the longest that a service may be away before that is an error.
 *
 * Every struct begins with its size, so that later versions can add to it. Strings are UTF-8 and
 * end with 0; those that a function gives live as long as the object they belong to. A loader is
 * for one thread at a time; releasing is for any. Errors: the code says what kind, bf_last_error()
 * of the same thread says what and what to do.
 */
#ifndef BATCHFLOW_H
#define BATCHFLOW_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BF_API __attribute__((visibility("default")))
#else
#define BF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define BF_ABI_VERSION 1

/* A struct of zeros that knows its size. */
#ifdef __cplusplus
#define BF_INIT(type)                 \
  [] {                                \
    type zeros{};                     \
    zeros.struct_size = sizeof zeros; \
    return zeros;                     \
  }()
#else
#define BF_INIT(type) \
  { .struct_size = sizeof(type) }
#endif

typedef enum bf_status {
  BF_OK = 0,
  BF_END = 1,     /* the last epoch is over; of an epoch: see bf_batch.last_of_epoch */
  BF_TIMEOUT = 2, /* no batch came in time; calling again goes on waiting */
  BF_BAD_ARGUMENT = 3,
  BF_NO_SERVICE = 4, /* none is there, or it went away for longer than reconnect_s */
  BF_REFUSED = 5,    /* the service says no, and why */
  BF_PROTOCOL = 6,   /* another version, or damaged memory */
  BF_NO_MEMORY = 7,
  BF_INTERRUPTED = 8 /* bf_loader_interrupt was called */
} bf_status;

typedef enum bf_order {
  BF_RELAXED = 0,
  BF_STRICT = 1,
  BF_SEQUENTIAL = 2,
  BF_WEIGHTED = 3
} bf_order;

typedef enum bf_type {
  BF_U8 = 0,
  BF_I8,
  BF_U16,
  BF_I16,
  BF_I32,
  BF_I64,
  BF_F16,
  BF_BF16,
  BF_F32,
  BF_F64
} bf_type;

enum { BF_MARK_FILLER = 1, BF_MARK_REPLACED = 2, BF_MARK_REHEARSED = 4 };

typedef enum bf_said { BF_SAID_OF_DATA = 0, BF_SAID_OF_WAIT = 1 } bf_said;

/* Of samples in a row, to compare them with others: CRC-32s (zlib's) of their names, a zero behind
 * each, and of their labels in decimals (-1: none) likewise; and the sum of those of each sample's
 * name, a zero and its label, which is the same in any order. */
typedef struct bf_samples_sum {
  size_t struct_size;
  uint64_t names;
  uint64_t labels;
  uint64_t pairs;
} bf_samples_sum;
#define BF_SAMPLES_SUM_INIT BF_INIT(bf_samples_sum)

typedef struct bf_loader bf_loader;

typedef struct bf_loader_options {
  size_t struct_size;
  const char* service;    /* NULL: BATCHFLOW_SERVICE, this user's, then the machine's */
  const char* dataset;    /* its name at the service, or a path that begins with / or . */
  const char* pipeline;   /* a name; NULL: the dataset's default */
  const char* job;        /* NULL: a new one for each loader */
  uint32_t batch_samples; /* of one rank */
  uint32_t rank;
  uint32_t world_size; /* 0: 1 */
  bf_order order;
  int has_shuffle_seed;
  uint64_t shuffle_seed;
  int drop_last;
  uint32_t epochs;    /* 0: until closed */
  uint64_t steps;     /* 0: all of them */
  uint32_t credits;   /* batches ahead; 0: the service's default */
  double weight;      /* 0: 1 */
  const char* state;  /* NULL, or what bf_loader_state gave: go on from there */
  double timeout_s;   /* 0: 300 */
  double reconnect_s; /* 0: 60 */
  int copy;           /* batches are copies, which may be written to */
  /* Of a path: tokens=COUNT, format=NAME, split=NAME:RULE, with commas between them, as --dataset
   * of batchflowd has them; NULL: as it is. */
  const char* reading;
  int has_corrupt_ratio_max;
  double corrupt_ratio_max; /* of the dataset's samples; more than that end the job */
  /* NULL, or called with what its user should know, by the thread that calls the library, while it
   * does: notes on the data when the loader is opened, and, whenever it has waited for other ranks
   * for 5 s, and then for twice as long each time, for which. */
  void (*say)(void* context, bf_said about, const char* text);
  void* say_context;
} bf_loader_options;
#define BF_LOADER_OPTIONS_INIT BF_INIT(bf_loader_options)

typedef struct bf_field {
  const char* name;
  bf_type type;
  int ragged;
  uint32_t dimensions;   /* of a sample */
  const uint64_t* shape; /* of a sample; ragged: the first is the most it may be */
} bf_field;

typedef struct bf_array {
  const void* values;
  const int64_t* offsets; /* ragged: samples + 1; else NULL */
} bf_array;

typedef struct bf_batch {
  size_t struct_size;
  uint64_t handle; /* for bf_batch_release */
  uint64_t step;   /* counts the batches of this loader, from 0 */
  uint32_t epoch;
  int last_of_epoch;
  uint32_t samples; /* fillers and rehearsed ones included */
  uint32_t fillers;
  uint32_t rehearsed;
  uint32_t repeats;
  int copied; /* not in place: more batches are held than the reserve has room for */
  uint32_t fields;
  const bf_array* arrays; /* in the order of bf_loader_info.field */
  const uint64_t* keys;
  const uint64_t* wanted;
  const uint8_t* marks;
} bf_batch;
#define BF_BATCH_INIT BF_INIT(bf_batch)

typedef struct bf_loader_info {
  size_t struct_size;
  uint64_t dataset_samples;
  uint64_t dataset_version;
  uint64_t steps_per_epoch;
  uint32_t classes;
  uint32_t credits;
  uint32_t epoch;            /* where it is */
  uint64_t samples_in_epoch; /* given so far, fillers apart, all ranks */
  uint32_t fields;
  const bf_field* field;
} bf_loader_info;
#define BF_LOADER_INFO_INIT BF_INIT(bf_loader_info)

typedef struct bf_loader_times { /* of this loader so far */
  size_t struct_size;
  double wait_s;    /* in bf_loader_next: the stalls */
  double between_s; /* between calls: the user's computing */
  uint64_t batches;
  uint64_t samples;
  uint64_t copied;
  uint64_t reconnects;
} bf_loader_times;
#define BF_LOADER_TIMES_INIT BF_INIT(bf_loader_times)

BF_API uint32_t bf_abi_version(void);
BF_API const char* bf_version(void);
/* Of the calling thread; never NULL. */
BF_API const char* bf_last_error(void);

/* Returns when the job is admitted: all its ranks have come. */
BF_API bf_status bf_loader_open(const bf_loader_options* options, bf_loader** loader);
BF_API bf_status bf_loader_info_get(bf_loader* loader, bf_loader_info* info);
/* The next batch; BF_END after the last epoch's last. A loader whose rank waits has nothing else to
 * do, so whatever it holds longest is what the service may take for released when it dies. */
BF_API bf_status bf_loader_next(bf_loader* loader, bf_batch* batch);
/* The same, for who waits in slices: at most `seconds`, and while the service is away it is
 * BF_TIMEOUT at once. To come back to one is for bf_loader_next, since all ranks of a job must be
 * there at one time: who tries for a moment and goes again keeps the others from it. */
BF_API bf_status bf_loader_next_within(bf_loader* loader, bf_batch* batch, double seconds);
/* 0 while the service is away, as far as the last call has seen. */
BF_API int bf_loader_is_connected(bf_loader* loader);
BF_API void bf_batch_release(bf_loader* loader, uint64_t handle);
/* Ends a wait of bf_loader_next, from any thread or a signal handler. */
BF_API void bf_loader_interrupt(bf_loader* loader);
/* Where the job is after the batches given so far: JSON, for bf_loader_options.state. One of
 * several ranks knows it in the orders strict and sequential, where all ranks advance together; in
 * the others this is BF_BAD_ARGUMENT, and the service alone knows: join again under the same job
 * name. */
BF_API bf_status bf_loader_state(bf_loader* loader, const char** state);
BF_API bf_status bf_loader_times_get(bf_loader* loader, bf_loader_times* times);
/* Gradients, losses: what weighted orders draw the next epoch by; before the first batch, that
 * epoch. Another service that the loader comes to is told them, too. Waits while the service has
 * not read earlier ones. */
BF_API bf_status bf_loader_report_scores(bf_loader* loader, const uint64_t* keys,
                                         const float* scores, size_t count);
/* The last score of each sample that this loader reported, by ascending key. Readable until the
 * next call of it. */
BF_API bf_status bf_loader_scores(bf_loader* loader, const uint64_t** keys, const float** scores,
                                  size_t* count);
BF_API bf_status bf_loader_sample_name(bf_loader* loader, uint64_t key, const char** name);
BF_API bf_status bf_loader_class_name(bf_loader* loader, uint32_t index, const char** name);
/* Of at most 4,096 samples. */
BF_API bf_status bf_loader_samples_sum(bf_loader* loader, uint64_t first, uint64_t count,
                                       bf_samples_sum* sum);
/* Batches that are still held stay readable until they are released. A child of fork() may close
 * and release what its parent opened, but nothing else. */
BF_API void bf_loader_close(bf_loader* loader);

#ifdef __cplusplus
}
#endif

#endif
