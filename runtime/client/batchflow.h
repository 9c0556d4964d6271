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
 * Batches: the arrays of a batch are the service's own memory, mapped read-only. Writing to them
 * ends the process. They stay as they are until the batch is released. Any thread may release it;
 * to release it twice does no harm.
 *
 * Waiting: every wait is bounded. `timeout_s` is the longest that bf_loader_next waits.
 * `reconnect_s` is the longest that a service may be away before that is an error.
 *
 * Threads: only one thread at a time may use a loader, but any thread may release batches.
 *
 * Strings are UTF-8 and end with 0. A string that a function gives lives as long as the object it
 * belongs to.
 *
 * Errors: the status says what kind of error it is. bf_last_error(), called by the same thread,
 * says what is wrong and what to do.
 *
 * Versions: a struct with `struct_size` may get more fields at its end in a later minor version. A
 * program that was built with an older header goes on to work with a newer library: a field that
 * the program's struct lacks has its default, 0. bf_field and bf_array have no size, and stay as
 * they are.
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

/* A struct with fields of 0, their default, but for its size. */
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
  BF_END = 1,     /* the last epoch is over; bf_batch.last_of_epoch marks the end of each epoch */
  BF_TIMEOUT = 2, /* no batch came in time; call again to go on waiting */
  BF_BAD_ARGUMENT = 3,
  BF_NO_SERVICE = 4, /* no service is there, or it was away for longer than reconnect_s */
  BF_REFUSED = 5,    /* the service refuses, and says why */
  BF_PROTOCOL = 6,   /* service and library have different versions, or memory is damaged */
  BF_NO_MEMORY = 7,
  BF_INTERRUPTED = 8, /* bf_loader_interrupt was called */
  BF_ABSENT = 9,      /* of a store: there is no such sample, or the feed no longer has it */
  BF_CORRUPT = 10     /* of a store: the sample is there, and cannot be prepared */
} bf_status;

typedef enum bf_order {
  BF_RELAXED = 0,
  BF_STRICT = 1,
  BF_SEQUENTIAL = 2,
  BF_WEIGHTED = 3,
  BF_MIXED = 4, /* several sources of the dataset, each at its share: see `sources` */
  BF_LIVE = 5   /* records of a feed, as they come: see `fills_from` */
} bf_order;

/* How an epoch of BF_WEIGHTED is drawn.
 *   BF_SYSTEMATIC   each sample comes as often as its weight says, rounded up or down
 *   BF_MULTINOMIAL  independent draws, as of PyTorch's samplers with replacement */
typedef enum bf_drawing { BF_SYSTEMATIC = 0, BF_MULTINOMIAL = 1 } bf_drawing;

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

/* What a message to `say` is about: the data, or a wait for other ranks. */
typedef enum bf_said { BF_SAID_OF_DATA = 0, BF_SAID_OF_WAIT = 1 } bf_said;

/* Checksums of consecutive samples, to compare them with others. All are CRC-32s as zlib's.
 *   names   of the samples' names, with a zero byte behind each
 *   labels  of their labels in decimals (-1: no label), with a zero byte behind each
 *   pairs   the sum of one CRC-32 for each sample, of its name, a zero byte and its label; it is
 *           the same in any order of the samples */
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
  const char* service;    /* its socket; NULL: BATCHFLOW_SERVICE, else this user's service, else
                             the machine's */
  const char* dataset;    /* its name at the service, or a path that begins with / or . */
  const char* pipeline;   /* its name; NULL: the dataset's default */
  const char* job;        /* its name; NULL: a new job for each loader */
  uint32_t batch_samples; /* of one rank */
  uint32_t rank;
  uint32_t world_size; /* 0: 1 */
  bf_order order;
  int has_shuffle_seed;
  uint64_t shuffle_seed;
  int drop_last;
  uint32_t epochs;    /* 0: until the loader is closed */
  uint64_t steps;     /* 0: all steps of its epochs */
  uint32_t credits;   /* batches that are held or asked for; 0: 3, or up to 32 small ones */
  double weight;      /* 0: 1 */
  const char* state;  /* NULL, or what bf_loader_state gave: the job goes on from there */
  double timeout_s;   /* 0: 300 */
  double reconnect_s; /* 0: 60 */
  int copy;           /* 1: batches are copies, which the program may write to */
  /* How a dataset that is a path is read: tokens=COUNT, packing=NAME, format=NAME, column=NAME,
   * label=NAME, split=NAME:RULE, with commas between them, as in --dataset of batchflowd. NULL: the
   * service finds out. */
  const char* reading;
  int has_corrupt_ratio_max;
  double corrupt_ratio_max; /* a part of the dataset's samples; more corrupt ones end the job */
  /* NULL, or a function that gets messages for the user. The library calls it only within a call of
   * the library, by the same thread: with notes on the data when the loader is opened; and with the
   * ranks that a loader waits for, after it has waited for 5 s, then after 10 s, 20 s and so on. */
  void (*say)(void* context, bf_said about, const char* text);
  void* say_context;
  bf_drawing drawing; /* BF_WEIGHTED */
  uint64_t draws;     /* BF_WEIGHTED, BF_MIXED: of one epoch; 0: as many as there are samples */
  int node_local;     /* BF_RELAXED, 1: each prepared block is for the ranks of one machine */
  /* Not BF_WEIGHTED: the samples of each rank's batch that come from the job's buffer, beside the
   * samples of the epoch; 0: none. While the buffer is empty, all samples are the epoch's.
   * BF_LIVE: see `fills_from`. */
  uint32_t rehearsed;
  const uint64_t*
      exemplars;          /* the buffer at the beginning, the same for all ranks, or NULL: keys */
  size_t exemplars_count; /* at most BF_EXEMPLARS_MOST */
  /* BF_RELAXED, 1: runs of adjacent samples are shuffled, and then samples among runs that are in
   * memory together. For small samples of which memory holds only a part. */
  int runs;
  double latency_target_s; /* how long the job may wait for a batch without harm, at most 3600; jobs
                              that may not wait (0, the default) are served before it */
  /* BF_MIXED: the sources, each a folder or a file at the dataset's root, and as many weights.
   * After any number of samples each source has had its share of them, rounded up or down. */
  const char* const* sources;
  const double* source_weights;
  size_t sources_count; /* at most BF_SOURCES_MOST */
  int sources_in_order; /* 1: each source comes in its own order; 0: each pass of it is shuffled */
  int weights_change;   /* 1: bf_loader_set_weights may be called; then no other job shares its
                           prepared blocks */
  /* 1: 'batchflowctl doctor --ideal' may have the loader give a batch again, for some seconds, to
   * see how fast the program is when it never waits. The program trains on that batch each time. */
  int ideal;
  /* With `rehearsed`: not 0: the service fills the buffer, with so many exemplars at most, out of
   * the samples that the job has had. `buffer_policy` says which are kept ('reservoir';
   * batchflowctl policy list). Loaders of a user that give one `buffer_name`, of one dataset, have
   * one buffer; NULL: loaders with this job's name. It outlives them, and the service. */
  uint32_t buffer_exemplars;
  const char* buffer_policy;
  const char* buffer_name;
  /* BF_LIVE: a step for which too few records have come waits for `fills_after_s`, and then is
   * filled with records that the job has had, of the last `fills_from`. These stand last in each
   * batch, and are marked as rehearsed. With 0, steps wait for records as long as it takes. With
   * `rehearsed`, each batch has so many of them at least, once there are such records, and the rest
   * are new. With `buffer_exemplars`, fills are drawn instead from so many of all records that the
   * job has had, each as likely as any other; `fills_from` is then 0, `buffer_policy` 'reservoir',
   * and there is no `buffer_name`. */
  double fills_after_s; /* at most 3600 */
  uint64_t fills_from;
  int fills_cut;   /* 1: fills only stand for what is missing: each rank has one record at least */
  int from_newest; /* 1: the job begins with the next record that comes; 0: with the oldest one that
                      the feed still has */
  int has_begin_at; /* 1: with the record `begin_at`, which the feed still has, or gets next */
  uint64_t begin_at;
  /* BF_MIXED: other weights, known beforehand: those at [i * sources_count] and after count from
   * sample `schedule_at[i]` of the job on. A job that goes on from a state has those of the state.
   */
  const uint64_t* schedule_at;
  const double* schedule_weights;
  size_t schedule_count; /* at most BF_CHANGES_MOST */
  /* BF_MIXED: this policy changes the weights, by what bf_loader_report_losses says ('excess-loss';
   * batchflowctl policy list); NULL: none does. */
  const char* weights_policy;
} bf_loader_options;
#define BF_LOADER_OPTIONS_INIT BF_INIT(bf_loader_options)
enum {
  BF_EXEMPLARS_MOST = 65536,
  BF_SOURCES_MOST = 4096,
  BF_FEATURES_MOST = 512,
  BF_CHANGES_MOST = 64
};

typedef struct bf_field {
  const char* name;
  bf_type type;
  int ragged;
  uint32_t dimensions;   /* of a sample */
  const uint64_t* shape; /* of a sample; ragged: the first is the most rows that it may have */
} bf_field;

typedef struct bf_array {
  const void* values;
  const int64_t* offsets; /* ragged: samples + 1 of them; else NULL */
} bf_array;

typedef struct bf_batch {
  size_t struct_size;
  uint64_t handle; /* for bf_batch_release */
  uint64_t step;   /* counts the batches of this loader, from 0 */
  uint32_t epoch;
  int last_of_epoch;
  uint32_t samples; /* fillers and rehearsed samples included */
  uint32_t fillers;
  uint32_t rehearsed;
  uint32_t repeats;
  int copied; /* 1: not in place, since as many batches are held as credits allow, or by `copy` */
  uint32_t fields;
  const bf_array* arrays; /* in the order of bf_loader_info.field */
  const uint64_t* keys;
  const uint64_t* wanted;
  const uint8_t* marks;
  /* How many times the loader has given this batch before; see bf_loader_options.ideal. Only the
   * first time (0) counts in states, receipts and times. */
  uint32_t again;
} bf_batch;
#define BF_BATCH_INIT BF_INIT(bf_batch)

typedef struct bf_loader_info {
  size_t struct_size;
  uint64_t dataset_samples;
  uint64_t dataset_version;
  uint64_t steps_per_epoch; /* where there is rehearsal, with the buffer that was given last */
  uint32_t classes;
  uint32_t credits;
  uint32_t epoch;            /* the epoch that the loader is in */
  uint64_t samples_in_epoch; /* that all ranks were given so far, without fillers */
  uint32_t fields;
  const bf_field* field;
} bf_loader_info;
#define BF_LOADER_INFO_INIT BF_INIT(bf_loader_info)

typedef struct bf_loader_times { /* of this loader so far */
  size_t struct_size;
  double wait_s;    /* within bf_loader_next: the stalls */
  double between_s; /* between calls: the program's computing */
  uint64_t batches;
  uint64_t samples;
  uint64_t copied;
  uint64_t reconnects;
  uint64_t replaced; /* samples that stood for corrupt ones */
  uint64_t again;    /* batches that were given again, which count in none of the others */
} bf_loader_times;
#define BF_LOADER_TIMES_INIT BF_INIT(bf_loader_times)

/* Where a job is in its mixture, after the batches given so far. The arrays have an element for
 * each source, and stay until the next call of bf_loader_mixture. */
typedef struct bf_mixture {
  size_t struct_size;
  uint64_t drawn; /* samples, of all epochs and ranks */
  size_t sources;
  const uint64_t* first; /* keys [first, first + samples) are the source's */
  const uint64_t* samples;
  const uint64_t* taken;         /* samples drawn from it */
  const double* weights;         /* they sum to 1 */
  size_t changes;                /* other weights that are known to come */
  const uint64_t* changes_at;    /* of each, the sample from which on they count */
  const double* changed_weights; /* of each, one for each source */
} bf_mixture;
#define BF_MIXTURE_INIT BF_INIT(bf_mixture)

BF_API uint32_t bf_abi_version(void);
BF_API const char* bf_version(void);
/* The last error of the calling thread; never NULL. */
BF_API const char* bf_last_error(void);

/* Returns when the job is admitted, which is when all its ranks have joined. */
BF_API bf_status bf_loader_open(const bf_loader_options* options, bf_loader** loader);
BF_API bf_status bf_loader_info_get(bf_loader* loader, bf_loader_info* info);
/* Gives the next batch, or BF_END after the last batch of the last epoch. */
BF_API bf_status bf_loader_next(bf_loader* loader, bf_batch* batch);
/* The same, for programs that do other things between short waits. It waits for at most `seconds`.
 * While the service is away it answers BF_TIMEOUT at once and does not join the service again,
 * since all ranks of a job must join at the same time; call bf_loader_next for that. */
BF_API bf_status bf_loader_next_within(bf_loader* loader, bf_batch* batch, double seconds);
/* 0 while the service is away, as far as the last call of the library has seen. */
BF_API int bf_loader_is_connected(bf_loader* loader);
BF_API void bf_batch_release(bf_loader* loader, uint64_t handle);
/* Pins the memory that a batch lies in, so that GPUs of this process read it directly, without
 * waiting: CUDA's cuMemHostRegister, in the primary context of this device. The memory holds many
 * batches, and stays pinned for as long as it is mapped, so most calls do nothing. BF_BAD_ARGUMENT:
 * the program does not use CUDA, or the driver refuses, or the batch is a copy. A batch must not be
 * released before copies of it that do not wait are over. */
BF_API bf_status bf_batch_pin(bf_loader* loader, uint64_t handle, int device);
/* Ends a wait of bf_loader_next. Any thread or signal handler may call it. */
BF_API void bf_loader_interrupt(bf_loader* loader);
/* Gives the state of the job after the batches given so far: JSON, for bf_loader_options.state.
 * Where a training step of all ranks has more slices of blocks than one batch can describe, a rank
 * does not know the job's position: this is BF_BAD_ARGUMENT from then on. */
BF_API bf_status bf_loader_state(bf_loader* loader, const char** state);
BF_API bf_status bf_loader_times_get(bf_loader* loader, bf_loader_times* times);
/* Reports a number for each sample, such as its loss. A weighted order draws the next epoch by
 * them, or the first epoch if no batch was given yet. A loader that joins another service reports
 * its scores there again. Waits while the service has not read earlier scores. */
BF_API bf_status bf_loader_report_scores(bf_loader* loader, const uint64_t* keys,
                                         const float* scores, size_t count);
/* Gives the last score that this loader reported for each sample, by ascending key. The arrays stay
 * until the next call of this function. */
BF_API bf_status bf_loader_scores(bf_loader* loader, const uint64_t** keys, const float** scores,
                                  size_t* count);
/* Replaces the buffer that a loader with `rehearsed` draws from; a count of 0 empties it. It counts
 * from the next epoch of which the service has prepared nothing yet. All ranks give the same one;
 * that of rank 0 is used. A loader that joins another service gives it the buffer again. */
BF_API bf_status bf_loader_report_exemplars(bf_loader* loader, const uint64_t* keys, size_t count);
/* With `buffer_exemplars`: reports the features that a network makes of samples, for policies that
 * go by them. `values` has `features` numbers for each sample, at most BF_FEATURES_MOST; `classes`
 * may be NULL where the dataset has classes, and UINT32_MAX stands for none. What is reported
 * before a sample's step is acknowledged (with the next batch) decides about it. */
BF_API bf_status bf_loader_report_features(bf_loader* loader, const uint64_t* keys, size_t count,
                                           const float* values, size_t features,
                                           const uint32_t* classes);
/* With `buffer_exemplars`: what the epoch under way rehearses from, by ascending key, as far as the
 * loader has come; and their weights, all 0 where exemplars are drawn alike. An exemplar is drawn
 * as often as its part of the sum of the weights says. The arrays stay until the next call of the
 * library. */
BF_API bf_status bf_loader_exemplars(bf_loader* loader, const uint64_t** keys,
                                     const uint32_t** weights, size_t* count);
/* The sources of a BF_MIXED loader have these weights, for all ranks, from sample `at` of the job
 * on, counted over all ranks and epochs (bf_mixture.drawn). If that is drawn already, they count
 * from the first sample that is not: some blocks are prepared ahead. One rank asks; all ranks know
 * the weights before the batch of that sample comes, and they are part of the job's state. */
BF_API bf_status bf_loader_set_weights(bf_loader* loader, const double* weights, size_t count,
                                       uint64_t at);
/* With `weights_policy`: what the network loses on each source, by this rank; NAN says nothing of a
 * source. The policy goes by the mean over all ranks, and may change the weights for all of them,
 * as bf_loader_set_weights does. A loader that joins another service reports its last losses. */
BF_API bf_status bf_loader_report_losses(bf_loader* loader, const double* losses, size_t count);
BF_API bf_status bf_loader_mixture(bf_loader* loader, bf_mixture* mixture);
/* Gives the next change of the weights that this loader has heard of since it was opened, in the
 * order in which it heard: from sample `at` of the job on the sources have these weights, one for
 * each. The weights stay until the next call. BF_END: all changes so far were given. With the state
 * at which the loader began, the changes say from which source each sample comes. Where many were
 * not asked for, the oldest are forgotten. */
BF_API bf_status bf_loader_next_change(bf_loader* loader, uint64_t* at, const double** weights);
BF_API bf_status bf_loader_sample_name(bf_loader* loader, uint64_t key, const char** name);
BF_API bf_status bf_loader_class_name(bf_loader* loader, uint32_t index, const char** name);
/* Gives the checksums of samples first to first + count - 1; count is at most 4,096. */
BF_API bf_status bf_loader_samples_sum(bf_loader* loader, uint64_t first, uint64_t count,
                                       bf_samples_sum* sum);
/* Batches that are still held stay readable until they are released. With a loader that its parent
 * opened, a child of fork() may do nothing but close it and release its batches. */
BF_API void bf_loader_close(bf_loader* loader);

/* Feeds: a producer sends records, and live jobs (BF_LIVE) train on them.
 *
 *   bf_feed_options options = BF_FEED_OPTIONS_INIT;
 *   options.folder = "/data/clicks";
 *   options.producer = "web-1";
 *   bf_feed* feed;
 *   if (bf_feed_open(&options, &feed) != BF_OK) { puts(bf_last_error()); exit(1); }
 *   bf_record record = BF_RECORD_INIT;
 *   record.bytes = ...;
 *   record.count = ...;
 *   bf_feed_put(feed, &record);
 *   bf_feed_flush(feed, 0);
 *   bf_feed_close(feed);
 *
 * A record that is acknowledged is on the feed's drive. Any other record is sent again when the
 * service went away, and is taken once. Only one thread at a time may use a producer. */
typedef struct bf_feed bf_feed;

typedef struct bf_feed_options {
  size_t struct_size;
  const char* folder;   /* of the feed; or tcp://HOST:PORT/NAME (tls://): the feed of that name at
                           a service of another machine, with BATCHFLOW_TOKEN_FILE */
  const char* producer; /* a name that no other producer of the feed has, of 512 bytes at most */
  const char* schema;   /* what the records are, as the feed has it; NULL: "bytes" */
  int cannot_wait;      /* 1: where the feed has no room, records are thinned, and are counted */
  double timeout_s;     /* the longest wait of a call; 0: 60 */
} bf_feed_options;
#define BF_FEED_OPTIONS_INIT BF_INIT(bf_feed_options)

typedef struct bf_record {
  size_t struct_size;
  const void* bytes;
  size_t count;
  uint64_t key;    /* the program's own; which records are thinned follows from it */
  int64_t time_ns; /* since 1970; 0: now */
  int has_label;
  int32_t label;
} bf_record;
#define BF_RECORD_INIT BF_INIT(bf_record)

typedef struct bf_feed_info {
  size_t struct_size;
  uint64_t sequence;     /* of the last record put; records of a producer count from 1 */
  uint64_t acknowledged; /* records up to this one are durable, or were counted as left out */
  uint32_t record_bytes_most;
  int waits; /* 1: the feed has asked its producers to wait */
} bf_feed_info;
#define BF_FEED_INFO_INIT BF_INIT(bf_feed_info)

/* A producer that comes back goes on behind the last record that is durable: see bf_feed_info. A
 * folder without feed.json is BF_BAD_ARGUMENT at once. A feed belongs to the process that opened
 * it: in a child of fork() all but bf_feed_close is BF_BAD_ARGUMENT. */
BF_API bf_status bf_feed_open(const bf_feed_options* options, bf_feed** feed);
/* Takes a copy of the record, and sends many at a time. It waits while much is not acknowledged. */
BF_API bf_status bf_feed_put(bf_feed* feed, const bf_record* record);
/* Waits until all records are acknowledged; `seconds`: at most, 0: 60. */
BF_API bf_status bf_feed_flush(bf_feed* feed, double seconds);
/* Flushes, and says that no record will follow, from any producer: the jobs that read the feed end.
 */
BF_API bf_status bf_feed_end(bf_feed* feed);
BF_API bf_status bf_feed_info_get(bf_feed* feed, bf_feed_info* info);
/* Records that are not acknowledged may be lost. */
BF_API void bf_feed_close(bf_feed* feed);

/* Stores: samples of a dataset by their keys, outside any order, one or many at a time.
 *
 *   bf_store_options options = BF_STORE_OPTIONS_INIT;
 *   options.dataset = "imagenet";
 *   options.pipeline = "imagenet-val";
 *   bf_store* store;
 *   if (bf_store_open(&options, &store) != BF_OK) { puts(bf_last_error()); exit(1); }
 *   uint64_t keys[2] = {7, 1000};
 *   bf_value values[2];
 *   if (bf_store_get(store, keys, 2, values) == BF_OK && values[0].status == BF_OK)
 *     use(values[0].arrays[0].values);
 *   bf_value_release(&values[0]);
 *   bf_value_release(&values[1]);
 *   bf_store_close(store);
 *
 * What is read and decoded for a store is shared with jobs. Its values are the service's memory, as
 * batches are, or copies where many are held. Only one thread at a time may use a store, but any
 * thread may release values. See docs/store.md. */
typedef struct bf_store bf_store;

/* BF_PREPARED: as the pipeline makes it; a random step draws anew for each value. BF_DECODED: as
 * the steps before the first random one make it. BF_ENCODED: as it is stored. */
typedef enum bf_form { BF_PREPARED = 0, BF_DECODED = 1, BF_ENCODED = 2 } bf_form;

typedef struct bf_store_options {
  size_t struct_size;
  const char* service; /* these as bf_loader_options has them */
  const char* dataset; /* also a feed: the key of a record is its number */
  const char* pipeline;
  const char* reading;
  bf_form form;
  uint32_t credits; /* samples that are held in place or asked for; 0: 64 */
  double timeout_s; /* the longest wait for a sample; 0: 300 */
  double reconnect_s;
  int copy; /* 1: values are copies, which the program may write to */
} bf_store_options;
#define BF_STORE_OPTIONS_INIT BF_INIT(bf_store_options)

/* It has no size, and stays as it is. */
typedef struct bf_value {
  uint64_t handle; /* 0: nothing is held */
  uint64_t key;
  bf_status status; /* BF_OK, BF_ABSENT or BF_CORRUPT */
  const bf_array*
      arrays; /* of one sample, in the order of bf_loader_info.field; NULL: there is none */
} bf_value;

/* The user must be able to read the dataset, as for a job. */
BF_API bf_status bf_store_open(const bf_store_options* options, bf_store** store);
BF_API bf_status bf_store_info_get(bf_store* store, bf_loader_info* info);
/* Gives the sample of each key; a key may come more than once. With another status than BF_OK
 * nothing is held, and the call may be made again. */
BF_API bf_status bf_store_get(bf_store* store, const uint64_t* keys, size_t count,
                              bf_value* values);
/* The key of the sample with this name: the path of a file below the dataset's folder. It takes
 * time in proportion to the dataset. BF_ABSENT: no sample has it. */
BF_API bf_status bf_store_find(bf_store* store, const char* name, uint64_t* key);
/* Ends a wait of bf_store_get. Any thread or signal handler may call it. */
BF_API void bf_store_interrupt(bf_store* store);
BF_API void bf_value_release(bf_value* value);
/* Values that are still held stay readable. */
BF_API void bf_store_close(bf_store* store);

#ifdef __cplusplus
}
#endif

#endif
