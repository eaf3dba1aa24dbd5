/** Runs one command per line of standard input with the definitions of docs/from-java.md, and prints how it ended. */
public class Main {
    static final java.io.BufferedReader input = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));

    static void command(String verb, String name) throws Exception {
        switch (verb) {
            case "lock" -> {
                try (var lock = new Lock(name, "ana", "a test")) {
                    System.out.println("inside");
                    input.readLine();
                    Database.transaction(db -> {
                        Database.run(db, "update loan set balance = balance - 1 where id = 123");
                        Database.run(db, "select turno.lock_guard(?, ?)", lock.resource, lock.token);
                    });
                }
            }
            case "pay" -> Once.pay(name, 10);
            case "work" -> {
                var stop = new AtomicBoolean();
                var waiting = new Thread(() -> {
                    try {
                        if (input.readLine() == null) Runtime.getRuntime().halt(0);     // the test is over
                    } catch (IOException error) {
                        throw new java.io.UncheckedIOException(error);
                    }
                    stop.set(true);
                });
                waiting.setDaemon(true);
                waiting.start();
                Letters.work((item, claim) -> {
                    System.out.println("begin " + item.text("invoice"));
                    Thread.sleep(Long.parseLong(item.text("ms")));
                    Letters.send(Integer.parseInt(item.text("invoice")), claim);
                }, stop);
            }
            default -> throw new IllegalArgumentException(verb);
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (String line; (line = input.readLine()) != null; ) {
            var words = line.split(" ");
            try {
                command(words[0], words[1]);
                System.out.println("done");
            } catch (Exception error) {
                System.out.println("error " + error.toString().replace('\n', ' '));
            }
        }
    }
}
