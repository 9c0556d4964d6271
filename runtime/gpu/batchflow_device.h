/* The C interface to batches in the memory of a GPU, for a job's process: it maps what the service
 * has put there, and says when the GPU no longer reads it.
 *
 * It is a library of its own, libbatchflow_device.so, so that a job without a GPU loads none of
 * CUDA. Where there is no GPU, device -1 is the host in place of one.
 *
 * Errors: a function answers what kind of error it is. bf_device_last_error(), called by the same
 * thread, says what is wrong. Any thread may call anything. After fork() a child may not use it.
 *
 * Streams are of CUDA (cudaStream_t); 1 is the legacy default stream.
 */
#ifndef BATCHFLOW_DEVICE_H
#define BATCHFLOW_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BF_DEVICE_API __attribute__((visibility("default")))
#else
#define BF_DEVICE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define BF_DEVICE_ABI_VERSION 1

typedef enum bf_device_status {
  BF_DEVICE_OK = 0,
  BF_DEVICE_REFUSED = 1,
  BF_DEVICE_NO_MEMORY = 2,
  BF_DEVICE_LOST = 3, /* nothing on the device can be used by this process any more */
  BF_DEVICE_BAD_ARGUMENT = 4
} bf_device_status;

typedef struct bf_device bf_device;
typedef struct bf_device_memory bf_device_memory;
typedef struct bf_device_fence bf_device_fence;

typedef struct bf_device_memory_info {
  size_t struct_size;
  void* address;
  uint64_t bytes;
  int32_t is_read_only; /* 0: the driver refuses such mappings, or this process has made it */
  int32_t dlpack_kind;  /* DLDeviceType: 2 CUDA, 1 the host */
  int32_t dlpack_index;
} bf_device_memory_info;

BF_DEVICE_API uint32_t bf_device_abi_version(void);
/* Never NULL. */
BF_DEVICE_API const char* bf_device_last_error(void);
/* A sentence about the GPUs that are there, or why there are none. */
BF_DEVICE_API const char* bf_device_found(void);

/* Opens a GPU, once for each process: a second call gives the same one. It stays open. */
BF_DEVICE_API bf_device_status bf_device_open(int index, bf_device** device);

/* Maps memory that another process has exported, read-only where the driver can. The descriptor
 * belongs to the library from then on, also when it fails. */
BF_DEVICE_API bf_device_status bf_device_map(bf_device* device, int descriptor, uint64_t bytes,
                                             bf_device_memory** memory);
/* New memory, which this process may write to, and its descriptor for another process. */
BF_DEVICE_API bf_device_status bf_device_make(bf_device* device, uint64_t bytes,
                                              bf_device_memory** memory);
BF_DEVICE_API bf_device_status bf_device_export(bf_device_memory* memory, int* descriptor);
BF_DEVICE_API bf_device_status bf_device_memory_get(bf_device_memory* memory,
                                                    bf_device_memory_info* info);
/* Copies between the host and the memory, and waits for it. */
BF_DEVICE_API bf_device_status bf_device_write(bf_device_memory* memory, uint64_t offset,
                                               const void* from, uint64_t bytes);
BF_DEVICE_API bf_device_status bf_device_read(bf_device_memory* memory, uint64_t offset, void* to,
                                              uint64_t bytes);
/* The memory stays mapped until what is held of it is released. */
BF_DEVICE_API void bf_device_unmap(bf_device_memory* memory);

/* Holds a slot of the memory. `released(context, slot)` is called once, by a thread of the library,
 * when the slot has been released and the device has done everything that this process gave it
 * before that; never when the device is lost. bf_batch_release(NULL, handle) is such a function. */
typedef void (*bf_device_released)(void* context, uint64_t slot);
BF_DEVICE_API bf_device_status bf_device_hold(bf_device_memory* memory, bf_device_released released,
                                              void* context, uint64_t slot, uint64_t* handle);
/* The slot is read by work on this stream, too. */
BF_DEVICE_API void bf_device_note_stream(uint64_t handle, void* stream);
/* To release a slot twice does no harm. `unused` is NULL. */
BF_DEVICE_API void bf_device_release(void* unused, uint64_t handle);
/* Of all devices: how many slots are held, and how many are released but still read. */
BF_DEVICE_API uint64_t bf_device_held_count(void);
BF_DEVICE_API uint64_t bf_device_waiting_count(void);

/* A fence behind everything that this process has given to the device so far. */
BF_DEVICE_API bf_device_status bf_device_fence_make(bf_device* device, void* stream,
                                                    bf_device_fence** fence);
/* Work that is given to the stream from now on begins after the fence. */
BF_DEVICE_API bf_device_status bf_device_order_after(void* stream, const bf_device_fence* fence);
BF_DEVICE_API void bf_device_fence_drop(bf_device_fence* fence);

#ifdef __cplusplus
}
#endif

#endif
