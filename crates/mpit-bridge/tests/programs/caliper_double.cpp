// Stands in for libcaliper, with the classes as caliper/Annotation.h declares them: counts its calls, so that a test observes that
// each got there. Its Function calls the C functions, as some versions may.
#include "caliper_double.h"

#include <cstdio>

static int began, ended;

extern "C" {
void cali_begin_region(const char *) { began++; }
void cali_end_region(const char *) { ended++; }
void cali_begin_comm_region(const char *) { began++; }
void cali_end_comm_region(const char *) { ended++; }
void caliper_print() { printf("caliper %d %d\n", began, ended); }
}

namespace cali {
Function::Function(const char *name) { cali_begin_region(name); }
Function::~Function() { cali_end_region("?"); }
ScopeAnnotation::ScopeAnnotation(const char *) { began++; }
ScopeAnnotation::~ScopeAnnotation() { ended++; }

struct Loop::Impl {
    int open;
};
Loop::Loop(const char *) : pI(new Impl{1}) { began++; }
Loop::~Loop() {
    end();
    delete pI;
}
void Loop::end() {
    if (pI->open) ended++;
    pI->open = 0;
}

struct Annotation::Impl {
    int references;
};
Annotation::Annotation(const char *, int) : pI(new Impl{1}) {}
Annotation::Annotation(const char *, const MetadataListType &, int) : pI(new Impl{1}) {}
Annotation::~Annotation() {
    if (--pI->references == 0) delete pI;
}
Annotation &Annotation::begin(int) {
    began++;
    return *this;
}
Annotation &Annotation::begin(const char *) {
    began++;
    return *this;
}
void Annotation::end() { ended++; }
Annotation::Guard::Guard(Annotation &of) : pI(of.pI) { pI->references++; }
Annotation::Guard::~Guard() {
    ended++;
    if (--pI->references == 0) delete pI;
}
} // namespace cali
