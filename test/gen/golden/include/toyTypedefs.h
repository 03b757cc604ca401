#include <toy.h>
typedef toyResult (*TFN_toyInit_v1000)(unsigned int flags);
typedef toyResult (*TFN_toyQueueDestroy_v1000)(toyQueue queue);
typedef toyResult (*TFN_toyQueueDestroy_v2000)(toyQueue queue);
typedef toyResult (*TFN_toyRecord_v1000)(toyMark mark, toyQueue queue);
typedef toyResult (*TFN_toyRecord_v2000_ptsz)(toyMark mark, toyQueue queue);
#ifdef TOY_EXTRA_VERSION
typedef toyResult (*TFN_toyInit_v3000)(unsigned int flags);
typedef toyResult (*TFN_toyNowhere_v1000)(void);
#endif
