/* The C interface of step plugins: what a shared library exports so that a pipeline can name it as
 * one of its steps. batchflow_step.hpp makes it a C++ class; `batchflowctl step new NAME` writes a
 * plugin to begin with, and docs/steps.md says how it is used.
 *
 * A plugin exports one symbol, `bf_step_entry`. Each of the service's threads that prepare has a
 * worker process, which loads the plugin. One thread of that process calls it: once `create`, then
 * `run` for one sample after the other, until the process is killed. The plugin may read files, and
 * use memory and threads within its process' bounds. Everything else that reaches outside of the
 * process fails with EPERM.
 *
 * What `run` writes must depend on its input, the parameters and, where the plugin says that it is
 * random, on `seed`. It must depend on nothing else, such as a clock, an address or an earlier
 * sample: samples are made again elsewhere, and must have the same bytes.
 */
#ifndef BATCHFLOW_STEP_H
#define BATCHFLOW_STEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A service loads plugins of its own version and hash; the hash is one of all that follows. */
#define BF_STEP_ABI_VERSION 1
#define BF_STEP_ABI_HASH UINT64_C(0xf948fe348d46a0cb)

/* Element types: the numbers of bf_type in batchflow.h. */
enum {
  BF_STEP_U8 = 0,
  BF_STEP_I8,
  BF_STEP_U16,
  BF_STEP_I16,
  BF_STEP_I32,
  BF_STEP_I64,
  BF_STEP_F16,
  BF_STEP_BF16,
  BF_STEP_F32,
  BF_STEP_F64
};

enum {
  BF_STEP_DONE = 0,
  BF_STEP_CORRUPT = 1 /* this sample is broken; of `create`: the step cannot be had like this */
};

enum { BF_STEP_DIMENSIONS_MOST = 8, BF_STEP_NAME_MOST = 64, BF_STEP_PROBLEM_BYTES = 512 };

/* What samples are like, before the step or after it. Values stand in rows without gaps. */
typedef struct bf_step_array {
  uint32_t type;
  uint32_t dimensions;
  uint64_t shape[BF_STEP_DIMENSIONS_MOST]; /* 0: differs from sample to sample */
  uint32_t ragged;                         /* 1: shape[0] is the most rows a sample may have */
  char name[BF_STEP_NAME_MOST + 1];        /* of the batch's field */
} bf_step_array;

typedef struct bf_step_parameter {
  const char* name;
  const char* value; /* as it is written; one of a list stands here once for each of its values */
} bf_step_parameter;

typedef struct bf_step_setup {
  size_t struct_size;
  bf_step_array input;
  uint32_t parameters;
  const bf_step_parameter* parameter; /* gone when `create` returns */
  char* problem;                      /* room for BF_STEP_PROBLEM_BYTES: what is wrong */
} bf_step_setup;

typedef struct bf_step_sample {
  size_t struct_size;
  const void* input; /* begins at a multiple of 64 */
  uint64_t input_bytes;
  const uint64_t* input_shape; /* of this very sample */
  void* output;                /* begins at a multiple of 64; holds what an earlier sample left */
  uint64_t output_bytes;       /* room; a sample that is not ragged fills all of it */
  uint64_t output_rows;        /* ragged: to be set */
  uint64_t seed;               /* of a random step; 0 for others */
  char* problem;               /* room for BF_STEP_PROBLEM_BYTES: what is wrong with the sample */
} bf_step_sample;

typedef struct bf_step_plugin {
  uint32_t struct_size;
  uint32_t abi_version;
  uint64_t abi_hash;
  const char* name; /* of the step; at most BF_STEP_NAME_MOST bytes */
  const char* version;
  uint32_t random; /* 1: it draws by `seed`; 0: the same input gives the same output */
  /* Says in `output` what it makes of setup->input. With shape {0, 0, 3} in and out, of bytes, it
   * changes pictures of any size and keeps their size. */
  int (*create)(const bf_step_setup* setup, bf_step_array* output, void** step);
  int (*run)(void* step, bf_step_sample* sample);
} bf_step_plugin;

#if defined(__GNUC__)
#define BF_STEP_EXPORT __attribute__((visibility("default")))
#else
#define BF_STEP_EXPORT
#endif

BF_STEP_EXPORT extern const bf_step_plugin bf_step_entry;

#ifdef __cplusplus
}
#endif

#endif
