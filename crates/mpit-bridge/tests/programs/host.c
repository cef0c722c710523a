/* host PART...: loads parts of a program, each with its own MPI library, and lets them work one after the other. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        void *object = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        void *found = object ? dlsym(object, "part") : NULL;
        int (*part)(int);
        if (!found) {
            fprintf(stderr, "%s\n", dlerror());
            return 9;
        }
        memcpy(&part, &found, sizeof part);
        printf("part %d: %d\n", i, part(10));
        fflush(stdout);
    }
    return 0;
}
