// Calls of functions of another file, by the linkage table, and of one whose
// address is taken as well, which shares its slot with the data.
int alpha(int), beta(int), gamma_rays(int);
int (*pointer(void))(int) { return gamma_rays; }
int calls(int x) { return alpha(x) + beta(x) * 3 + gamma_rays(x); }
int tail(int x) { return beta(x); }
