#include "runtime/video/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <type_traits>

namespace batchflow::video {
namespace {

void* open(std::string_view name, int version) {
  return dlopen(fmt::format("lib{}.so.{}", name, version).c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::optional<Libraries> load() {
  void* const util = open("avutil", LIBAVUTIL_VERSION_MAJOR);
  void* const codec = open("avcodec", LIBAVCODEC_VERSION_MAJOR);
  void* const scale = open("swscale", LIBSWSCALE_VERSION_MAJOR);
  if (!util || !codec || !scale) return std::nullopt;
  Libraries libraries;
  bool all = true;
  const auto take = [&all](void* library, const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all = all && function;
  };
  take(codec, "avcodec_find_decoder", libraries.avcodec_find_decoder);
  take(codec, "avcodec_alloc_context3", libraries.avcodec_alloc_context3);
  take(codec, "avcodec_free_context", libraries.avcodec_free_context);
  take(codec, "avcodec_open2", libraries.avcodec_open2);
  take(codec, "avcodec_send_packet", libraries.avcodec_send_packet);
  take(codec, "avcodec_receive_frame", libraries.avcodec_receive_frame);
  take(codec, "avcodec_version", libraries.avcodec_version);
  take(codec, "av_packet_alloc", libraries.av_packet_alloc);
  take(codec, "av_packet_free", libraries.av_packet_free);
  take(codec, "av_new_packet", libraries.av_new_packet);
  take(codec, "av_packet_unref", libraries.av_packet_unref);
  take(util, "av_frame_alloc", libraries.av_frame_alloc);
  take(util, "av_frame_free", libraries.av_frame_free);
  take(util, "av_frame_unref", libraries.av_frame_unref);
  take(util, "av_frame_get_buffer", libraries.av_frame_get_buffer);
  take(util, "av_pix_fmt_desc_get", libraries.av_pix_fmt_desc_get);
  take(util, "av_mallocz", libraries.av_mallocz);
  take(util, "av_log_set_level", libraries.av_log_set_level);
  take(scale, "sws_getCachedContext", libraries.sws_getCachedContext);
  take(scale, "sws_freeContext", libraries.sws_freeContext);
  take(scale, "sws_getCoefficients", libraries.sws_getCoefficients);
  take(scale, "sws_setColorspaceDetails", libraries.sws_setColorspaceDetails);
  take(scale, "sws_scale", libraries.sws_scale);
  take(scale, "swscale_version", libraries.swscale_version);
  if (!all) return std::nullopt;
  libraries.av_log_set_level(AV_LOG_QUIET);  // problem() says what is wrong
  return libraries;
}

}  // namespace

const Libraries* Libraries::get() {
  static const std::optional<Libraries> loaded = load();
  return loaded ? &*loaded : nullptr;
}

}  // namespace batchflow::video
