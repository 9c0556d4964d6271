// nvJPEG, loaded when it is first wanted, so that programs start where it is not installed.
#pragma once

#include <nvjpeg.h>

#include <string>

namespace batchflow::gpu {

#define BF_NVJPEG_FUNCTIONS(apply)                                                                \
  apply(GetProperty) apply(CreateEx) apply(Destroy) apply(GetHardwareDecoderInfo)                 \
      apply(JpegStateCreate) apply(JpegStateDestroy) apply(DecodeBatchedInitialize)               \
          apply(DecodeBatched) apply(DecodeBatchedSupported) apply(BufferPinnedCreate)            \
              apply(BufferPinnedDestroy) apply(BufferDeviceCreate) apply(BufferDeviceDestroy)     \
                  apply(StateAttachPinnedBuffer) apply(StateAttachDeviceBuffer)                   \
                      apply(JpegStreamCreate) apply(JpegStreamDestroy) apply(JpegStreamParse)     \
                          apply(JpegStreamParseHeader) apply(DecodeParamsCreate)                  \
                              apply(DecodeParamsDestroy) apply(DecodeParamsSetOutputFormat)       \
                                  apply(DecoderCreate) apply(DecoderDestroy)                      \
                                      apply(DecoderJpegSupported) apply(DecoderStateCreate)       \
                                          apply(DecodeJpegHost) apply(DecodeJpegTransferToDevice) \
                                              apply(DecodeJpegDevice)

struct NvjpegLibrary {
#define BF_NVJPEG_MEMBER(name) decltype(&::nvjpeg##name) name = nullptr;
  BF_NVJPEG_FUNCTIONS(BF_NVJPEG_MEMBER)
#undef BF_NVJPEG_MEMBER
  std::string version;
};

// Null: `problem` says why. BATCHFLOW_NVJPEG in the environment is the library, or a folder that
// has it; otherwise the loader's usual folders are searched. It is loaded once and stays.
const NvjpegLibrary* nvjpeg_library(std::string& problem);

const char* text_of(nvjpegStatus_t status);

}  // namespace batchflow::gpu
