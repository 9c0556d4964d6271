// The C interface: it checks its arguments, and lets no exception out.
#include "runtime/client/batchflow.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/base/config_value.h"
#include "runtime/client/c_interface.h"
#include "runtime/client/feed_producer.h"
#include "runtime/client/held_batches.h"
#include "runtime/client/loader.h"
#include "runtime/client/store.h"
#include "runtime/failpoint/failpoint.h"

struct bf_loader {
  std::unique_ptr<batchflow::client::Loader> loader;
};

namespace {

using batchflow::client::fail;
using batchflow::client::Loader;

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

// The first loader of a process reads them, so that tests of a user's program can make something
// fail in it.
void read_failpoints() {
  static std::atomic<pid_t> read_by{0};  // a child of fork() has an environment of its own
  if (read_by == getpid()) return;
  if (const char* const failing = std::getenv("BATCHFLOW_CLIENT_FAILPOINTS"))
    batchflow::failpoint::configure_failpoints(failing);
  read_by = getpid();
}

bf_status no_first_fields(const char* type) {
  return fail(BF_BAD_ARGUMENT,
              fmt::format("{} is NULL, or its struct_size is smaller than in any version; begin it "
                          "with its _INIT",
                          type));
}

bf_status is_null(const char* argument) {
  return fail(BF_BAD_ARGUMENT, fmt::format("{} is NULL; give where the result goes", argument));
}

// Lets `function` fill a struct, and gives the caller the fields that its own has.
template <class Struct, class Function>
bf_status fill(Struct* given, const char* type, Function function) {
  if (!batchflow::client::has_first_fields(given)) return no_first_fields(type);
  Struct whole{};
  const bf_status status = function(whole);
  if (status == BF_OK) batchflow::client::give_fields(whole, given);
  return status;
}

// Calls `function` with the loader. Fails where there is none, or where another process opened it.
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
  return batchflow::client::last_error();
}

bf_status bf_loader_open(const bf_loader_options* options, bf_loader** loader) {
  return guarded([&] {
    if (loader == nullptr) return is_null("loader");
    *loader = nullptr;
    read_failpoints();
    if (!batchflow::client::has_first_fields(options)) return no_first_fields("bf_loader_options");
    auto opened = std::make_unique<bf_loader>();
    const bf_status status = Loader::open(batchflow::client::whole_of(options), opened->loader);
    if (status == BF_OK) *loader = opened.release();
    return status;
  });
}

bf_status bf_loader_info_get(bf_loader* loader, bf_loader_info* info) {
  return with(loader, [&](const Loader& open) {
    return fill(info, "bf_loader_info", [&](bf_loader_info& whole) {
      open.info(whole);
      return BF_OK;
    });
  });
}

bf_status bf_loader_next(bf_loader* loader, bf_batch* batch) {
  return with(loader, [&](Loader& open) {
    return fill(batch, "bf_batch", [&](bf_batch& whole) { return open.next(whole); });
  });
}

bf_status bf_loader_next_within(bf_loader* loader, bf_batch* batch, double seconds) {
  return with(loader, [&](Loader& open) {
    return fill(batch, "bf_batch",
                [&](bf_batch& whole) { return open.next_within(whole, seconds); });
  });
}

int bf_loader_is_connected(bf_loader* loader) {
  return with(loader, [](const Loader& open) {
           return open.is_connected() ? BF_OK : BF_NO_SERVICE;
         }) == BF_OK;
}

void bf_batch_release(bf_loader*, uint64_t handle) {
  guarded([&] {
    batchflow::client::release(handle);
    return BF_OK;
  });
}

bf_status bf_batch_pin(bf_loader*, uint64_t handle, int device) {
  return guarded([&] {
    const std::string problem = batchflow::client::pin(handle, device);
    return problem.empty() ? BF_OK : batchflow::client::fail(BF_BAD_ARGUMENT, problem);
  });
}

void bf_loader_interrupt(bf_loader* loader) {
  if (loader != nullptr) loader->loader->interrupt();
}

bf_status bf_loader_state(bf_loader* loader, const char** state) {
  return with(loader, [&](Loader& open) {
    return state != nullptr ? open.state(state) : is_null("state");
  });
}

bf_status bf_loader_times_get(bf_loader* loader, bf_loader_times* times) {
  return with(loader, [&](const Loader& open) {
    return fill(times, "bf_loader_times", [&](bf_loader_times& whole) {
      open.times(whole);
      return BF_OK;
    });
  });
}

bf_status bf_loader_report_scores(bf_loader* loader, const uint64_t* keys, const float* scores,
                                  size_t count) {
  return with(loader, [&](Loader& open) {
    if (count != 0 && (keys == nullptr || scores == nullptr))
      return fail(BF_BAD_ARGUMENT, "keys or scores are NULL; give as many of each as `count`");
    return open.report_scores(keys, scores, count);
  });
}

bf_status bf_loader_scores(bf_loader* loader, const uint64_t** keys, const float** scores,
                           size_t* count) {
  return with(loader, [&](Loader& open) {
    return keys != nullptr && scores != nullptr && count != nullptr
               ? open.scores(keys, scores, *count)
               : is_null("keys, scores or count");
  });
}

bf_status bf_loader_report_exemplars(bf_loader* loader, const uint64_t* keys, size_t count) {
  return with(loader, [&](Loader& open) {
    if (count != 0 && keys == nullptr)
      return fail(BF_BAD_ARGUMENT, "keys are NULL; give as many as `count`");
    return open.report_exemplars(keys, count);
  });
}

bf_status bf_loader_report_features(bf_loader* loader, const uint64_t* keys, size_t count,
                                    const float* values, size_t features, const uint32_t* classes) {
  return with(loader, [&](Loader& open) {
    if (count != 0 && (keys == nullptr || (features != 0 && values == nullptr)))
      return fail(BF_BAD_ARGUMENT,
                  "keys or values are NULL; give as many keys as `count`, and "
                  "`features` values for each");
    return open.report_features({keys, count}, {values, count * features}, features, classes);
  });
}

bf_status bf_loader_exemplars(bf_loader* loader, const uint64_t** keys, const uint32_t** weights,
                              size_t* count) {
  return with(loader, [&](Loader& open) {
    return keys != nullptr && weights != nullptr && count != nullptr
               ? open.exemplars(keys, weights, *count)
               : is_null("keys, weights or count");
  });
}

bf_status bf_loader_set_weights(bf_loader* loader, const double* weights, size_t count,
                                uint64_t at) {
  return with(loader, [&](Loader& open) {
    return weights != nullptr ? open.set_weights({weights, count}, at) : is_null("weights");
  });
}

bf_status bf_loader_report_losses(bf_loader* loader, const double* losses, size_t count) {
  return with(loader, [&](Loader& open) {
    return losses != nullptr ? open.report_losses({losses, count}) : is_null("losses");
  });
}

bf_status bf_loader_next_change(bf_loader* loader, uint64_t* at, const double** weights) {
  return with(loader, [&](Loader& open) {
    return at != nullptr && weights != nullptr ? open.next_change(*at, *weights)
                                               : is_null("at or weights");
  });
}

bf_status bf_loader_mixture(bf_loader* loader, bf_mixture* mixture) {
  return with(loader, [&](Loader& open) {
    return fill(mixture, "bf_mixture", [&](bf_mixture& whole) { return open.mixture(whole); });
  });
}

bf_status bf_loader_sample_name(bf_loader* loader, uint64_t key, const char** name) {
  return with(loader, [&](Loader& open) {
    return name != nullptr ? open.name(false, key, name) : is_null("name");
  });
}

bf_status bf_loader_samples_sum(bf_loader* loader, uint64_t first, uint64_t count,
                                bf_samples_sum* sum) {
  return with(loader, [&](Loader& open) {
    return fill(sum, "bf_samples_sum",
                [&](bf_samples_sum& whole) { return open.samples_sum(first, count, whole); });
  });
}

bf_status bf_loader_class_name(bf_loader* loader, uint32_t index, const char** name) {
  return with(loader, [&](Loader& open) {
    return name != nullptr ? open.name(true, index, name) : is_null("name");
  });
}

void bf_loader_close(bf_loader* loader) {
  guarded([&] {
    delete loader;
    batchflow::failpoint::report_failpoints();
    return BF_OK;
  });
}

// ------------------------------------------------------------------------------------ feeds ----

namespace {

template <class Function>
bf_status with(bf_feed* feed, Function function) noexcept {
  return guarded([&] {
    if (feed == nullptr) return fail(BF_BAD_ARGUMENT, "the feed is NULL");
    if (feed->producer->is_of_parent())
      return fail(BF_BAD_ARGUMENT,
                  "this feed was opened before fork(); open one in this process, under a name that "
                  "no other producer has");
    return function(*feed->producer);
  });
}

}  // namespace

bf_status bf_feed_open(const bf_feed_options* options, bf_feed** feed) {
  return guarded([&] {
    if (feed == nullptr) return is_null("feed");
    *feed = nullptr;
    read_failpoints();
    if (!batchflow::client::has_first_fields(options)) return no_first_fields("bf_feed_options");
    auto opened = std::make_unique<bf_feed>();
    const bf_status status = batchflow::client::FeedProducer::open(
        batchflow::client::whole_of(options), opened->producer);
    if (status == BF_OK) *feed = opened.release();
    return status;
  });
}

bf_status bf_feed_put(bf_feed* feed, const bf_record* record) {
  return with(feed, [&](batchflow::client::FeedProducer& open) {
    if (!batchflow::client::has_first_fields(record)) return no_first_fields("bf_record");
    return open.put(batchflow::client::whole_of(record));
  });
}

bf_status bf_feed_flush(bf_feed* feed, double seconds) {
  return with(feed, [&](batchflow::client::FeedProducer& open) { return open.flush(seconds); });
}

bf_status bf_feed_end(bf_feed* feed) {
  return with(feed, [](batchflow::client::FeedProducer& open) { return open.end(); });
}

bf_status bf_feed_info_get(bf_feed* feed, bf_feed_info* info) {
  return with(feed, [&](const batchflow::client::FeedProducer& open) {
    return fill(info, "bf_feed_info", [&](bf_feed_info& whole) {
      open.info(whole);
      return BF_OK;
    });
  });
}

void bf_feed_close(bf_feed* feed) {
  guarded([&] {
    delete feed;
    return BF_OK;
  });
}

// ----------------------------------------------------------------------------------- stores ----

namespace {

template <class Function>
bf_status with(bf_store* store, Function function) noexcept {
  return guarded([&] {
    if (store == nullptr) return fail(BF_BAD_ARGUMENT, "the store is NULL");
    if (store->store->is_of_parent())
      return fail(BF_BAD_ARGUMENT, "this store was opened before fork(); open one in this process");
    return function(*store->store);
  });
}

}  // namespace

bf_status bf_store_open(const bf_store_options* options, bf_store** store) {
  return guarded([&] {
    if (store == nullptr) return is_null("store");
    *store = nullptr;
    read_failpoints();
    if (!batchflow::client::has_first_fields(options)) return no_first_fields("bf_store_options");
    auto opened = std::make_unique<bf_store>();
    const bf_status status =
        batchflow::client::Store::open(batchflow::client::whole_of(options), opened->store);
    if (status == BF_OK) *store = opened.release();
    return status;
  });
}

bf_status bf_store_info_get(bf_store* store, bf_loader_info* info) {
  return with(store, [&](const batchflow::client::Store& open) {
    return fill(info, "bf_loader_info", [&](bf_loader_info& whole) {
      open.info(whole);
      return BF_OK;
    });
  });
}

bf_status bf_store_get(bf_store* store, const uint64_t* keys, size_t count, bf_value* values) {
  return with(store, [&](batchflow::client::Store& open) {
    if (count != 0 && (keys == nullptr || values == nullptr))
      return fail(BF_BAD_ARGUMENT, "keys or values are NULL; give as many of each as `count`");
    return open.get({keys, count}, values);
  });
}

bf_status bf_store_find(bf_store* store, const char* name, uint64_t* key) {
  return with(store, [&](batchflow::client::Store& open) {
    return name != nullptr && key != nullptr ? open.find(name, *key) : is_null("name or key");
  });
}

void bf_store_interrupt(bf_store* store) {
  if (store != nullptr) store->store->interrupt();
}

void bf_value_release(bf_value* value) {
  guarded([&] {
    if (value == nullptr || value->handle == 0) return BF_OK;
    batchflow::client::release(value->handle);
    value->handle = 0;
    value->arrays = nullptr;
    return BF_OK;
  });
}

void bf_store_close(bf_store* store) {
  guarded([&] {
    delete store;
    batchflow::failpoint::report_failpoints();
    return BF_OK;
  });
}
