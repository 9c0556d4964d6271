// The C interface: checks what it is handed, and lets no exception out.
#include "runtime/client/batchflow.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/config_error.h"
#include "runtime/failpoint/failpoint.h"

#include "runtime/client/error.h"
#include "runtime/client/held_batches.h"
#include "runtime/client/loader.h"

struct bf_loader {
  std::unique_ptr<batchflow::Loader> loader;
};

namespace {

using batchflow::fail;
using batchflow::Loader;

template <class Function>
bf_status guarded(Function function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(BF_NO_MEMORY, "this process has no memory left; free some and call again");
  } catch (const batchflow::ConfigError& error) {
    return fail(BF_BAD_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return fail(BF_PROTOCOL, error.what());
  }
}

template <class Struct>
bool is_whole(const Struct* given) {
  return given != nullptr && given->struct_size >= sizeof(Struct);
}

// By the first loader of a process: tests of a user's program let something go wrong in it.
void read_failpoints() {
  static std::atomic<pid_t> read_by{0};  // a child of fork() has an environment of its own
  if (read_by == getpid()) return;
  if (const char* const failing = std::getenv("BATCHFLOW_CLIENT_FAILPOINTS"))
    batchflow::configure_failpoints(failing);
  read_by = getpid();
}

bf_status not_whole(const char* what) {
  return fail(BF_BAD_ARGUMENT,
              fmt::format("{} is NULL or smaller than this library's; begin it with "
                          "its _INIT and install header and library together",
                          what));
}

// Calls `function` with the loader, unless there is none that may be used here.
template <class Function>
bf_status with(bf_loader* loader, Function function) noexcept {
  return guarded([&] {
    if (loader == nullptr) return fail(BF_BAD_ARGUMENT, "the loader is NULL");
    if (loader->loader->is_of_parent()) {
      return fail(BF_BAD_ARGUMENT,
                  "this loader was opened before fork(); open one in this process");
    }
    return function(*loader->loader);
  });
}

}  // namespace

std::uint32_t bf_abi_version(void) {
  return BF_ABI_VERSION;
}

const char* bf_version(void) {
  return BATCHFLOW_VERSION;
}

const char* bf_last_error(void) {
  return batchflow::last_error();
}

bf_status bf_loader_open(const bf_loader_options* options, bf_loader** loader) {
  return guarded([&] {
    if (loader == nullptr) return fail(BF_BAD_ARGUMENT, "there is nowhere to put the loader");
    *loader = nullptr;
    read_failpoints();
    if (!is_whole(options)) return not_whole("bf_loader_options");
    auto opened = std::make_unique<bf_loader>();
    const bf_status status = Loader::open(*options, opened->loader);
    if (status == BF_OK) *loader = opened.release();
    return status;
  });
}

bf_status bf_loader_info_get(bf_loader* loader, bf_loader_info* info) {
  return with(loader, [&](const Loader& open) {
    if (!is_whole(info)) return not_whole("bf_loader_info");
    open.info(*info);
    return BF_OK;
  });
}

bf_status bf_loader_next(bf_loader* loader, bf_batch* batch) {
  return with(loader, [&](Loader& open) {
    return is_whole(batch) ? open.next(*batch) : not_whole("bf_batch");
  });
}

bf_status bf_loader_next_within(bf_loader* loader, bf_batch* batch, double seconds) {
  return with(loader, [&](Loader& open) {
    return is_whole(batch) ? open.next_within(*batch, seconds) : not_whole("bf_batch");
  });
}

int bf_loader_is_connected(bf_loader* loader) {
  return with(loader, [](const Loader& open) {
           return open.is_connected() ? BF_OK : BF_NO_SERVICE;
         }) == BF_OK;
}

void bf_batch_release(bf_loader*, uint64_t handle) {
  guarded([&] {
    batchflow::release(handle);
    return BF_OK;
  });
}

void bf_loader_interrupt(bf_loader* loader) {
  if (loader != nullptr) loader->loader->interrupt();
}

bf_status bf_loader_state(bf_loader* loader, const char** state) {
  return with(loader, [&](Loader& open) {
    return state != nullptr ? open.state(state) : not_whole("state");
  });
}

bf_status bf_loader_times_get(bf_loader* loader, bf_loader_times* times) {
  return with(loader, [&](const Loader& open) {
    if (!is_whole(times)) return not_whole("bf_loader_times");
    open.times(*times);
    return BF_OK;
  });
}

bf_status bf_loader_report_scores(bf_loader* loader, const uint64_t* keys, const float* scores,
                                  size_t count) {
  return with(loader, [&](Loader& open) {
    if (count != 0 && (keys == nullptr || scores == nullptr)) return not_whole("keys or scores");
    return open.report_scores(keys, scores, count);
  });
}

bf_status bf_loader_scores(bf_loader* loader, const uint64_t** keys, const float** scores,
                           size_t* count) {
  return with(loader, [&](Loader& open) {
    return keys != nullptr && scores != nullptr && count != nullptr
               ? open.scores(keys, scores, *count)
               : not_whole("keys, scores or count");
  });
}

bf_status bf_loader_sample_name(bf_loader* loader, uint64_t key, const char** name) {
  return with(loader, [&](Loader& open) {
    return name != nullptr ? open.name(false, key, name) : not_whole("name");
  });
}

bf_status bf_loader_samples_sum(bf_loader* loader, uint64_t first, uint64_t count,
                                bf_samples_sum* sum) {
  return with(loader, [&](Loader& open) {
    return is_whole(sum) ? open.samples_sum(first, count, *sum) : not_whole("bf_samples_sum");
  });
}

bf_status bf_loader_class_name(bf_loader* loader, uint32_t index, const char** name) {
  return with(loader, [&](Loader& open) {
    return name != nullptr ? open.name(true, index, name) : not_whole("name");
  });
}

void bf_loader_close(bf_loader* loader) {
  guarded([&] {
    delete loader;
    batchflow::report_failpoints();
    return BF_OK;
  });
}
