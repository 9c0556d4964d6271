// FFmpeg's libraries. They bring some hundred others, so they are loaded with the first pipeline
// that takes clips, and a service without such a pipeline has nothing of them.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libavutil/log.h>
#include <libavutil/mem.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

namespace batchflow::video {

struct Libraries {
  decltype(&::avcodec_find_decoder) avcodec_find_decoder = nullptr;
  decltype(&::avcodec_alloc_context3) avcodec_alloc_context3 = nullptr;
  decltype(&::avcodec_free_context) avcodec_free_context = nullptr;
  decltype(&::avcodec_open2) avcodec_open2 = nullptr;
  decltype(&::avcodec_send_packet) avcodec_send_packet = nullptr;
  decltype(&::avcodec_receive_frame) avcodec_receive_frame = nullptr;
  decltype(&::avcodec_version) avcodec_version = nullptr;
  decltype(&::av_packet_alloc) av_packet_alloc = nullptr;
  decltype(&::av_packet_free) av_packet_free = nullptr;
  decltype(&::av_new_packet) av_new_packet = nullptr;
  decltype(&::av_packet_unref) av_packet_unref = nullptr;
  decltype(&::av_frame_alloc) av_frame_alloc = nullptr;
  decltype(&::av_frame_free) av_frame_free = nullptr;
  decltype(&::av_frame_unref) av_frame_unref = nullptr;
  decltype(&::av_frame_get_buffer) av_frame_get_buffer = nullptr;
  decltype(&::av_pix_fmt_desc_get) av_pix_fmt_desc_get = nullptr;
  decltype(&::av_mallocz) av_mallocz = nullptr;
  decltype(&::av_log_set_level) av_log_set_level = nullptr;
  decltype(&::sws_getCachedContext) sws_getCachedContext = nullptr;
  decltype(&::sws_freeContext) sws_freeContext = nullptr;
  decltype(&::sws_getCoefficients) sws_getCoefficients = nullptr;
  decltype(&::sws_setColorspaceDetails) sws_setColorspaceDetails = nullptr;
  decltype(&::sws_scale) sws_scale = nullptr;
  decltype(&::swscale_version) swscale_version = nullptr;

  // Null: they are not installed.
  static const Libraries* get();
};

}  // namespace batchflow::video
