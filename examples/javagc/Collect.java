// The workload of the test: 23 collections when it is told to.
class Collect {
    public static void main(String[] args) throws java.io.IOException {
        System.out.println("ready");
        System.in.read();
        for (int i = 0; i < 23; i++) {
            System.gc();
        }
        System.out.println("done");
        System.in.read();
    }
}
