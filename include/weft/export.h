/* C linkage and symbol visibility, for every public header. */
#ifndef WEFT_EXPORT_H
#define WEFT_EXPORT_H

#define WEFT_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define WEFT_BEGIN_DECLS extern "C" {
#define WEFT_END_DECLS }
#else
#define WEFT_BEGIN_DECLS
#define WEFT_END_DECLS
#endif

#endif
