/* The C interface of policy plugins: what a shared library exports so that simulator and service
 * load its policies as if they were built in. policies/plugin/plugin.h makes all of it from the
 * classes that a built-in policy is written as; docs/policy-guide.md says how a plugin is made,
 * checked and shipped.
 *
 * A plugin exports one function, `batchflow_policy_plugin`, and has a footer in a section of its
 * own, which a host reads before it loads anything.
 *
 * Versions. The footer says for which versions of this interface the plugin is made. A host speaks
 * a range, too, and takes the greatest version that both know. Within a version, tables and structs
 * grow at their ends alone. Each table begins with its size, so that either side sees what the
 * other does not have: a function that is missing or null is one that the plugin leaves to its
 * default. The host allocates all structs and arrays, and says in bf_policy_host.struct_bytes how
 * long a struct, or an element of an array, is. A plugin reads no further than that. What is
 * not settled yet stands apart, in tables named `unstable`: they are used where both sides have
 * exactly the same version of them, and are left out where they have not.
 *
 * Threads. One policy is called by one thread at a time; different policies that a plugin has made
 * may be called at the same time, so it has no variables that they share. Functions must answer at
 * once, and must draw by `seed`, read no clock, do no I/O and start no threads
 * (docs/policy-guide.md, Rules of determinism). Pointers to views, contexts and texts are gone when
 * the call returns. What the plugin hands out stays valid for ever: a host never unloads it.
 */
#ifndef BATCHFLOW_POLICY_H
#define BATCHFLOW_POLICY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  BF_POLICY_VERSION_LEAST = 1,
  BF_POLICY_VERSION = 2,  /* of the stable part; since 2 there are BF_REHEARSAL and BF_MIXTURE */
  BF_POLICY_UNSTABLE = 1, /* of the unstable tables */
  /* Of the classes in core/engine/policy.h, by the rules of the Itanium C++ ABI: it grows with any
   * change of theirs. */
  BF_POLICY_OBJECT = 3
};

/* -------------------------------------------------------------------------------- numbers ---- */

enum { /* kinds */
       BF_ALLOCATION = 0,
       BF_EVICTION,
       BF_SELECTION,
       BF_DISPATCH,
       BF_SCALING,
       BF_REHEARSAL,
       BF_MIXTURE
};
enum { BF_ENCODED = 0, BF_DECODED, BF_PREPARED };                          /* forms */
enum { BF_GPU = 0, BF_DRAM, BF_NVME, BF_STORE };                           /* tiers */
enum { BF_STRICT = 0, BF_SEQUENTIAL, BF_RELAXED, BF_WEIGHTED, BF_LISTED }; /* orders */
enum { BF_INSERT = 0, BF_BYPASS, BF_MAKE_ROOM, BF_TRIM_AND_INSERT };       /* admissions */
enum { BF_EVICTED = 0, BF_INVALIDATED };                                   /* removals */
enum { BF_EARLY_NO = 0, BF_EARLY_YES, BF_EARLY_STOP };                     /* early reads */
enum { BF_INTEGER = 0, BF_NUMBER, BF_FLAG, BF_TEXT };                      /* types of parameters */

#define BF_NO_ITEM UINT32_MAX
#define BF_NO_CHOICE UINT64_MAX
#define BF_NO_CLASS UINT32_MAX
#define BF_NEVER INT64_MAX             /* an instant; instants are nanoseconds */
#define BF_UNKNOWN_USE UINT64_MAX      /* the next use is not known */
#define BF_NEVER_USED (UINT64_MAX - 1) /* known not to be used again */

/* ---------------------------------------------------------------------------------- views ---- */
/* core/engine/policy.h says what each field means. It has the same structs by the same names:
 * bf_share_view is ShareView. */

typedef struct bf_access {
  uint32_t item;
  uint32_t reserved;
  uint64_t slots;
  uint64_t next_use;
  uint32_t run;
  uint32_t reserved_2;
  int64_t at;
  uint32_t job;
  uint8_t kept_decoded;
  uint8_t reserved_3[3];
} bf_access;

typedef struct bf_place {
  uint32_t node;
  uint8_t tier;
  uint8_t reserved;
  uint16_t device;
} bf_place;

typedef struct bf_share_view {
  uint32_t share;
  uint8_t form;
  uint8_t reserved[3];
  uint32_t dataset;
  uint32_t reserved_2;
  uint64_t slot_bytes;
  uint64_t slots_now;
  uint64_t slots_used;
  uint64_t slots_least;
  uint64_t slots_ahead;
  uint64_t slots_all;
  uint64_t samples_all;
  uint32_t jobs;
  uint32_t ranks;
  double weight;
  double stall;
  double wanted_per_s;
  double made_per_s;
  double requests_per_s;
  double hit_ratio;
  double worker_s;
  double store_bytes;
  uint64_t slots_needed;
  double remade_per_s;
} bf_share_view;

typedef struct bf_place_view {
  bf_place place;
  uint64_t capacity_bytes;
  const bf_share_view* shares;
  uint64_t share_count;
  int64_t now;
  uint32_t workers;
  uint32_t reserved;
  double busy;
  double waits_for_reads;
  double store_bytes_per_s;
} bf_place_view;

typedef struct bf_forecast {
  double busy;
  double store_bytes_per_s;
} bf_forecast;

typedef struct bf_selection_candidate {
  uint32_t distance;
  uint8_t ready;
  uint8_t reserved[3];
  uint32_t needed_by;
  uint32_t reserved_2;
  double ready_s;
} bf_selection_candidate;

typedef struct bf_selection_view {
  uint32_t job;
  uint8_t order;
  uint8_t reserved[3];
  const bf_selection_candidate* candidates;
  uint64_t candidate_count;
  int64_t now;
  uint64_t user;
} bf_selection_view;

typedef struct bf_sample_candidate {
  uint64_t sample;
  uint32_t passed_over;
  uint8_t decoded;
  uint8_t encoded;
  uint8_t reserved[2];
  uint64_t bytes;
} bf_sample_candidate;

typedef struct bf_samples_view {
  uint32_t job;
  uint32_t epoch;
  uint64_t left;
  const bf_sample_candidate* candidates;
  uint64_t candidate_count;
  int64_t now;
} bf_samples_view;

typedef struct bf_work_candidate {
  uint32_t job;
  uint32_t stream;
  uint64_t asked;
  uint32_t distance;
  uint32_t depth;
  int64_t deadline;
  uint32_t waiting;
  uint32_t needed_by;
  uint32_t lead;
  uint32_t reserved;
  double cached;
  double prepare_s;
  double stall_fraction;
  uint64_t last_served;
  double weight;
  int64_t latency_target;
  double recent_stall;
  double wanted_per_s;
  uint64_t blocks_left;
  uint64_t block_bytes;
  uint64_t window;
  uint8_t remake;
  uint8_t reserved_2[7];
  uint64_t user;
} bf_work_candidate;

typedef struct bf_dispatch_view {
  int64_t now;
  const bf_work_candidate* candidates;
  uint64_t candidate_count;
} bf_dispatch_view;

typedef struct bf_node_candidate {
  uint32_t node;
  uint32_t ranks;
  uint32_t workers;
  uint32_t started;
  uint32_t ahead;
  uint32_t reserved;
  double kept;
  uint64_t in_per_s;
  uint64_t out_per_s;
  uint64_t coming;
  uint64_t going;
  uint64_t to_fetch;
  uint64_t to_send;
} bf_node_candidate;

typedef struct bf_nodes_view {
  const bf_work_candidate* work;
  const bf_node_candidate* candidates;
  uint64_t candidate_count;
} bf_nodes_view;

typedef struct bf_node_view {
  uint32_t node;
  uint32_t workers_now;
  uint32_t workers_most;
  uint32_t busy;
  uint32_t ready_to_prepare;
  uint32_t reserved;
  double prepare_s;
  double stall_fraction;
  int64_t now;
  double busy_part;
  double waits_for_reads;
  double made_per_s;
  double wanted_per_s;
} bf_node_view;

typedef struct bf_job_view {
  uint32_t job;
  uint32_t ranks;
  double step_s;
  double prepare_s;
  double blocks_per_step;
  double stall_fraction;
  uint32_t window;
  uint32_t reserved;
  int64_t now;
  double weight;
  double wanted_per_s;
  uint64_t user;
} bf_job_view;

typedef struct bf_exemplar {
  uint64_t sample;
  uint32_t label;
  uint8_t is_scored;
  uint8_t reserved[3];
  float score;
  uint32_t reserved_2;
  uint64_t since;
} bf_exemplar;

typedef struct bf_rehearsal_view {
  const bf_exemplar* exemplar;
  uint64_t number;
  const float* features;
  uint64_t feature_count;
} bf_rehearsal_view;

typedef struct bf_source_view {
  uint64_t samples;
  uint64_t drawn;
  double weight;
  uint8_t is_known;
  uint8_t reserved[7];
  double loss;
  uint32_t reports;
  uint32_t reserved_2;
} bf_source_view;

typedef struct bf_mixture_view {
  uint32_t job;
  uint32_t reserved;
  uint64_t drawn;
  const bf_source_view* sources;
  uint64_t source_count;
} bf_mixture_view;

/* Indices of bf_policy_host.struct_bytes. */
enum {
  BF_STRUCT_ACCESS = 0,
  BF_STRUCT_SHARE_VIEW,
  BF_STRUCT_PLACE_VIEW,
  BF_STRUCT_FORECAST,
  BF_STRUCT_SELECTION_CANDIDATE,
  BF_STRUCT_SELECTION_VIEW,
  BF_STRUCT_SAMPLE_CANDIDATE,
  BF_STRUCT_SAMPLES_VIEW,
  BF_STRUCT_WORK_CANDIDATE,
  BF_STRUCT_DISPATCH_VIEW,
  BF_STRUCT_NODE_CANDIDATE,
  BF_STRUCT_NODES_VIEW,
  BF_STRUCT_NODE_VIEW,
  BF_STRUCT_JOB_VIEW,
  BF_STRUCT_CONTEXT,
  BF_STRUCT_PARAMETER_VALUE,
  BF_STRUCT_EXEMPLAR,
  BF_STRUCT_REHEARSAL_VIEW,
  BF_STRUCT_SOURCE_VIEW,
  BF_STRUCT_MIXTURE_VIEW,
  BF_STRUCTS = 32 /* those that are not used yet are 0 */
};

/* ----------------------------------------------------------------------------------- host ---- */

typedef struct bf_policy_host {
  uint32_t bytes;
  uint32_t version_least; /* what the host speaks */
  uint32_t version;
  uint32_t unstable;
  uint32_t struct_bytes[BF_STRUCTS];
  /* Memory that is zero and costs nothing until it is touched. Grows `data` (null at first) from
   * *bytes to at least `wanted`, keeps what is there, and sets *bytes. Null: there is no memory,
   * and `data` stays as it is. */
  void* (*grow_memory)(void* data, uint64_t* bytes, uint64_t wanted);
  void (*free_memory)(void* data, uint64_t bytes);
  /* The policy that was made with this `instance` cannot go on; what it answers is not used any
   * more. */
  void (*failed)(void* instance, const char* why);
} bf_policy_host;

/* The value of a parameter. They come in the order in which the policy declares them. */
typedef struct bf_parameter_value {
  const char* text;
  int64_t integer;
  double number;
  uint64_t flag;
} bf_parameter_value;

/* What a policy is made with. */
typedef struct bf_policy_context {
  void* instance; /* names the policy to bf_policy_host.failed */
  uint64_t seed;
  const bf_parameter_value* parameters;
  uint64_t parameter_count;
  /* Of an eviction policy: the share that it serves. A mixture policy has as many sources as
   * `items`, and a rehearsal policy's buffer has room for `capacity` exemplars. */
  uint64_t items;
  uint64_t capacity;
  uint32_t dataset;
  uint8_t form;
  uint8_t tier;
  uint8_t reserved[2];
} bf_policy_context;

/* --------------------------------------------------------------------------------- tables ---- */
/* `policy` is what `make` answered. All functions but `make` and `end` may be null if their
 * default will do; those without a default are marked. */

typedef struct bf_policy_common {
  uint32_t bytes;
  uint32_t reserved;
  /* `user` is bf_policy.user. Null: it failed, and has said why. */
  void* (*make)(const void* user, const bf_policy_context* context);
  void (*end)(void* policy);
  /* What an instance that takes over from this one may use: writes it to `to` if it is not longer
   * than `room`, and answers how long it is. Default: nothing. */
  uint64_t (*save)(void* policy, void* to, uint64_t room);
  /* It takes over from an instance of a policy of this name, perhaps of another version of the
   * plugin, which saved this. Default: it begins anew. */
  void (*restore)(void* policy, const void* saved, uint64_t bytes);
  /* Of a plugin in C++: the policy as an object of its class of core/engine/policy.h, which the
   * host calls without going through these tables. A host uses it if `object_version` is its own
   * BF_POLICY_OBJECT, and so are the version of the interface and of its unstable part. May be
   * null, and answer null, as `make`. The host deletes the object. */
  void* (*object)(const void* user, const bf_policy_context* context);
  uint32_t object_version;
  uint32_t reserved_2;
} bf_policy_common;

typedef struct bf_allocation_functions {
  uint32_t bytes;
  uint32_t reserved;
  void (*allocate)(void* policy, const bf_place_view* place, uint64_t* slots); /* no default */
  int64_t (*ask_again)(void* policy);                                          /* BF_NEVER */
  uint32_t (*wants_measures)(void* policy);                                    /* 0 */
  void (*forecast)(void* policy, bf_forecast* forecast); /* leaves it as it is: nothing is said */
} bf_allocation_functions;

typedef struct bf_eviction_functions {
  uint32_t bytes;
  uint32_t reserved;
  void (*hit)(void* policy, const bf_access* access);
  uint32_t (*missed)(void* policy, const bf_access* access);   /* BF_INSERT */
  void (*inserted)(void* policy, const bf_access* access);     /* no default */
  uint32_t (*victim)(void* policy, const bf_access* newcomer); /* no default */
  void (*removed)(void* policy, uint32_t item, uint32_t why);  /* no default */
  void (*pinned)(void* policy, uint32_t item);                 /* no default */
  void (*unpinned)(void* policy, uint32_t item);               /* no default */
  void (*resized)(void* policy, uint64_t capacity);
  void (*grow)(void* policy, uint64_t items); /* no default */
  void (*forget)(void* policy, uint32_t item);
  void (*needed)(void* policy, uint32_t item, uint32_t jobs);
  void (*scored)(void* policy, uint32_t item, float score);
  void (*epoch_began)(void* policy, uint32_t job, uint32_t epoch);
} bf_eviction_functions;

typedef struct bf_eviction_unstable {
  uint32_t bytes;
  uint32_t reserved;
  void (*prefetch)(void* policy, uint32_t item);
  uint32_t (*read_early)(void* policy, const bf_access* access); /* BF_EARLY_NO */
} bf_eviction_unstable;

typedef struct bf_selection_functions {
  uint32_t bytes;
  uint32_t reserved;
  uint64_t (*choose)(void* policy, const bf_selection_view* view); /* no default */
  uint32_t (*looks_behind_ready)(void* policy);                    /* 1 */
  int64_t (*ask_again)(void* policy);                              /* BF_NEVER */
  void (*epoch_began)(void* policy, uint32_t job, uint32_t epoch);
  /* Default: `weights` are `scores`. */
  void (*weigh)(void* policy, uint32_t job, const float* scores, float* weights, uint64_t count);
} bf_selection_functions;

typedef struct bf_selection_unstable {
  uint32_t bytes;
  uint32_t reserved;
  uint32_t (*blocks_to_choose_from)(void* policy); /* 0 */
  /* Default: the first `count`. */
  void (*choose_samples)(void* policy, const bf_samples_view* view, uint32_t* picks,
                         uint64_t count);
} bf_selection_unstable;

typedef struct bf_dispatch_functions {
  uint32_t bytes;
  uint32_t reserved;
  uint64_t (*next)(void* policy, const bf_dispatch_view* view); /* no default */
  int64_t (*ask_again)(void* policy);                           /* BF_NEVER */
} bf_dispatch_functions;

typedef struct bf_dispatch_unstable {
  uint32_t bytes;
  uint32_t reserved;
  uint32_t (*chooses_nodes)(void* policy); /* 0 */
  uint64_t (*choose_node)(void* policy, const bf_nodes_view* view);
} bf_dispatch_unstable;

typedef struct bf_scaling_functions {
  uint32_t bytes;
  uint32_t reserved;
  uint32_t (*workers)(void* policy, const bf_node_view* node); /* no default */
  uint32_t (*depth)(void* policy, const bf_job_view* job);     /* no default */
} bf_scaling_functions;

typedef struct bf_rehearsal_functions {
  uint32_t bytes;
  uint32_t reserved;
  /* The index that the sample gets, or BF_NO_CHOICE. `seed` is of this visit. */
  uint64_t (*choose)(void* policy, const bf_rehearsal_view* sample, uint64_t seed); /* no default */
  void (*put)(void* policy, uint64_t index, const bf_rehearsal_view* exemplar);     /* no default */
  uint32_t (*weighs)(void* policy);                                                 /* 0 */
  float (*weight)(void* policy, const bf_exemplar* exemplar);                       /* 1 */
} bf_rehearsal_functions;

typedef struct bf_mixture_functions {
  uint32_t bytes;
  uint32_t reserved;
  uint64_t (*every)(void* policy); /* no default */
  /* `weights` has one number for each source, and is what they weigh now. */
  void (*weigh)(void* policy, const bf_mixture_view* view, double* weights); /* no default */
} bf_mixture_functions;

/* --------------------------------------------------------------------------------- plugin ---- */

typedef struct bf_policy_parameter {
  uint32_t bytes;
  uint32_t type;
  const char* name;
  const char* default_value;
  const char* help;
  double least; /* of integer and number */
  double greatest;
} bf_policy_parameter;

/* bf_policy.flags, as in core/engine/policy_list.h. */
enum {
  BF_CLAIRVOYANT = 1,
  BF_NEXT_USES = 2,
  BF_READS_EARLY = 4,
  BF_IGNORES_HITS = 8,
  BF_WHOLE_WITHOUT_HITS = 16,
  BF_SIMULATED_ONLY = 32,
  BF_MAY_STARVE = 64
};

typedef struct bf_policy {
  uint32_t bytes;
  uint32_t kind;
  const char* name;
  const char* help; /* one line, and further lines if needed */
  uint32_t flags;
  uint32_t parameter_count;
  const bf_policy_parameter* const* parameters;
  const void* user; /* what `make` is given: one `make` may serve many policies */
  const bf_policy_common* common;
  const void* functions; /* of its kind */
  const void* unstable;  /* of its kind, or null */
} bf_policy;

/* bf_policy_preset.flags */
enum { BF_SHARE_STREAMS = 1, BF_SHARE_NODES = 2, BF_WORKERS_HELD_DURING_READS = 4 };

/* A combination of policies, each as users write it: `minio`, `bounded-lag:blocks=4`. */
typedef struct bf_policy_preset {
  uint32_t bytes;
  uint32_t flags;
  const char* name;
  const char* help;
  const char* allocation;
  const char* eviction[3]; /* by form */
  const char* selection;
  const char* dispatch;
  const char* scaling;
  uint32_t helper_nodes;
  uint32_t workers_per_rank;
  uint32_t late_after_p99;
  uint32_t reserved;
} bf_policy_preset;

typedef struct bf_policy_plugin {
  uint32_t bytes;
  uint32_t version;  /* of the interface that it will keep to: one that the host speaks */
  uint32_t unstable; /* of the unstable tables that it has; 0: none */
  uint32_t policy_count;
  const bf_policy* const* policies;
  uint32_t preset_count;
  uint32_t reserved;
  const bf_policy_preset* const* presets;
} bf_policy_plugin;

#if defined(__GNUC__)
#define BF_POLICY_EXPORT __attribute__((visibility("default")))
#else
#define BF_POLICY_EXPORT
#endif

/* `host` stays valid for ever. Null: the plugin cannot be used with this host. */
BF_POLICY_EXPORT const bf_policy_plugin* batchflow_policy_plugin(const bf_policy_host* host);

/* --------------------------------------------------------------------------------- footer ---- */
/* Texts end with a zero. It stands in the section `.batchflow_policy` of an ELF file. */

#define BF_POLICY_SECTION ".batchflow_policy"
#define BF_POLICY_MAGIC "batchflow-policy"

typedef struct bf_policy_footer {
  char magic[16]; /* BF_POLICY_MAGIC, without a zero */
  uint32_t bytes;
  uint32_t version_least; /* of the interface, for which it is made */
  uint32_t version;
  uint32_t unstable;
  char platform[32]; /* `linux-x86_64` */
  char name[64];
  char plugin_version[32];
  char policies[864]; /* `eviction=mine dispatch=mine preset=mine`, separated by spaces */
} bf_policy_footer;

#if defined(__linux__) && defined(__x86_64__)
#define BF_POLICY_PLATFORM "linux-x86_64"
#elif defined(__linux__) && defined(__aarch64__)
#define BF_POLICY_PLATFORM "linux-aarch64"
#else
#define BF_POLICY_PLATFORM "unknown"
#endif

#ifdef __cplusplus
}
#endif

#endif
