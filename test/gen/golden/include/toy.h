/* A small API with one of everything that the generator meets. */
#ifndef TOY_H
#define TOY_H
#include <stddef.h>

#define TOY_VERSION 2010

#ifdef __cplusplus
extern "C" {
#endif

typedef enum toyResult_enum {
  TOY_SUCCESS = 0,
  TOY_INVALID = 1,
  TOY_NOT_READY = 3,
  TOY_UNSUPPORTED = 7,
  TOY_ALSO_UNSUPPORTED = 7,
#ifdef TOY_EXTRA_RESULT
  TOY_LOST = 9
#endif
} toyResult;

typedef enum toyMode_enum { TOY_COLD = 0, TOY_WARM = 1 } toyMode;
typedef enum toySide_enum { TOY_LEFT = -1, TOY_RIGHT = 1 } toySide;
typedef int toyDevice;
typedef struct toyQueue_st *toyQueue;
typedef struct toyMark_st *toyMark;
typedef struct toyShape_st *toyShape;
typedef void (*toyCallback)(void *);

typedef struct toyPlace_st {
  toySide side;
  int id;
  unsigned long long words[2];
  struct { float ratio; } inner;
} toyPlace;

typedef union toyValue_un { int i; void *p; } toyValue;
typedef struct toyPointers_st { int n; const void *p; } toyPointers;
typedef struct toyChoice_st { int n; toyValue value; } toyChoice;
typedef struct toyBig_st { int n[65]; } toyBig;

toyResult toyInit(unsigned int flags);
toyResult toyScalars(int a, unsigned char b, size_t c, float d, double e, toyMode mode, toySide side, toyDevice device);
toyResult toyGetInfo(size_t *free, long long *total, toyMode *mode);
toyResult toyGetLimit(int *value, toyMode which);
toyResult toySetLimit(toyMode which, int value);
toyResult toyExchange(int *value);
toyResult toyPeek(const int *value, int *twice);
toyResult toySetPlace(const toyPlace *place, toyPlace by_value);
toyResult toyGetPlace(toyPlace *place, int id);
toyResult toyQueueCreate(toyQueue *queue, int q, int r);
toyResult toyQueueDestroy(toyQueue queue);
toyResult toyQueueDestroy_v2(toyQueue queue);
toyResult toyMarkGet(toyMark *mark, toyQueue queue);
toyResult toyRecord(toyMark mark, toyQueue queue);
toyResult toyRecord_ptsz(toyMark mark, toyQueue queue);
toyResult toyFind(int *length, const char *name, const char *register_);
toyResult toyWrite(const void *data, size_t bytes, size_t count);
toyResult toyRead(void *data, size_t bytes);
toyResult toySum(long long *sum, const int *values, const toyMode *modes, unsigned int n);
toyResult toyFill(int *values, unsigned int n, int first);
toyResult toyWaitAll(const toyQueue *queues, int n);
toyResult toyList(toyMark *marks, int n);
toyResult toyBlob(const void *blob, void *answer);
toyResult toyBoth(int *a);
toyResult toyHere(int *a);
toyResult toyLaunch(void **parameters, toyQueue queue);
toyResult toyOld(int a);
toyResult toyOlder(int a);
toyResult toyOldest(int a);

/* Left out of the good specs; each bad spec says something wrong about one of them. */
#ifdef TOY_STRANGE
toyResult toyStrangeText(const char *text);
toyResult toyStrangeBuffer(char *text, int length);
toyResult toyStrangeArray(const int *values, int n);
toyResult toyStrangeVoid(const void *data);
toyResult toyStrangeOut(void *data);
toyResult toyStrangePointers(void **data);
toyResult toyStrangeCallback(toyCallback callback);
toyResult toyStrangeUnion(const toyValue *value);
toyResult toyStrangeRecord(const toyPointers *value);
toyResult toyStrangeChoice(toyChoice value);
toyResult toyStrangeBig(toyBig *value);
toyResult toyStrangeShape(toyShape shape);
toyResult toyStrangePair(int *a, int b);
toyResult toyStrangeQueue(toyQueue queue);
toyResult toyStrangeQueue_ptsz(toyQueue queue);
toyResult toyStrangeDevice(toyDevice *device);
#endif

#ifdef TOY_UNNAMED
toyResult toyUnnamed(toyQueue queue, const char *name);
#endif

#ifdef __cplusplus
}
#endif
#endif
