// In-memory warehouse transactions: the work of baremark's jvm-warehouse, after the idea of SPECjbb2005 and not comparable to it.
//
// Each warehouse has one thread, which enters orders, takes payments, delivers, asks for the state of orders and reports.
// Orders live on the heap and die by the million, so that the collector has what it has in a business server. At the end
// stock and money of every warehouse must add up: what was ordered left the shelves, what was owed is paid or still due.

import java.util.ArrayDeque;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;

public final class Warehouse implements Runnable {
    static final int ITEMS = 20_000;
    static final int CUSTOMERS = 3_000;
    static final int OPEN_ORDERS = 30_000;
    static final long FIRST_STOCK = 1_000;

    static volatile boolean counting;
    static volatile boolean over;

    record Line(int item, int quantity, long price) {}

    static final class Order {
        final long number;
        final int customer;
        final Line[] lines;
        final long total;
        final String note;

        Order(long number, int customer, Line[] lines, String note) {
            long sum = 0;
            for (Line line : lines) sum += line.quantity() * line.price();
            this.number = number;
            this.customer = customer;
            this.lines = lines;
            this.total = sum;
            this.note = note;
        }
    }

    final SplittableRandom random;
    final CountDownLatch ready;
    final long[] stock = new long[ITEMS];
    final long[] price = new long[ITEMS];
    final String[] names = new String[ITEMS];
    final long[] due = new long[CUSTOMERS];
    final Order[] last = new Order[CUSTOMERS];
    final ArrayDeque<Order> open = new ArrayDeque<>();
    long counted, orders, ordered, taken, restocked, sold, paid, checksum;

    Warehouse(long seed, CountDownLatch ready) {
        this.random = new SplittableRandom(seed);
        this.ready = ready;
        for (int item = 0; item < ITEMS; item++) {
            stock[item] = FIRST_STOCK;
            price[item] = 100 + random.nextInt(9_900);
            names[item] = "item " + item + " of the warehouse " + seed;
        }
        while (open.size() < OPEN_ORDERS) newOrder();
    }

    public void run() {
        ready.countDown();
        while (!over) {
            int draw = random.nextInt(100);
            if (draw < 44) newOrder();
            else if (draw < 87) payment();
            else if (draw < 91) status();
            else if (draw < 96) delivery();
            else report();
            if (counting) counted++;
        }
    }

    void newOrder() {
        int customer = random.nextInt(CUSTOMERS);
        Line[] lines = new Line[5 + random.nextInt(11)];
        for (int at = 0; at < lines.length; at++) {
            int item = random.nextInt(ITEMS), quantity = 1 + random.nextInt(10);
            if (stock[item] < quantity) {
                stock[item] += FIRST_STOCK;
                restocked += FIRST_STOCK;
            }
            stock[item] -= quantity;
            taken += quantity;
            lines[at] = new Line(item, quantity, price[item]);
        }
        Order order = new Order(orders++, customer, lines, "order of " + lines.length + " by customer " + customer);
        ordered += quantityOf(order);
        sold += order.total;
        due[customer] += order.total;
        last[customer] = order;
        open.addLast(order);
        if (open.size() > OPEN_ORDERS) open.removeFirst();
    }

    static long quantityOf(Order order) {
        long sum = 0;
        for (Line line : order.lines) sum += line.quantity();
        return sum;
    }

    void payment() {
        int customer = random.nextInt(CUSTOMERS);
        long amount = Math.min(due[customer], 1 + random.nextInt(100_000));
        due[customer] -= amount;
        paid += amount;
    }

    void status() {
        Order order = last[random.nextInt(CUSTOMERS)];
        if (order != null) checksum += order.note.hashCode() + order.number;
    }

    void delivery() {
        for (int at = 0; at < 10 && open.size() > OPEN_ORDERS / 2; at++) checksum += open.removeFirst().total;
    }

    void report() {
        StringBuilder page = new StringBuilder();
        int from = random.nextInt(ITEMS - 200);
        for (int item = from; item < from + 200; item++)
            if (stock[item] < FIRST_STOCK / 4) page.append(names[item]).append(' ').append(stock[item]).append('\n');
        checksum += page.length();
    }

    String wrong() {
        long left = 0, owed = 0;
        for (long of : stock) left += of;
        for (long of : due) owed += of;
        if (left + taken != ITEMS * FIRST_STOCK + restocked)
            return "stock: " + left + " left and " + taken + " taken of " + (ITEMS * FIRST_STOCK + restocked);
        if (ordered != taken) return "stock: " + ordered + " ordered and " + taken + " taken";
        if (sold != paid + owed) return "money: " + sold + " sold, " + paid + " paid and " + owed + " due";
        return null;
    }

    public static void main(String[] arguments) throws Exception {
        int warehouses = Integer.parseInt(arguments[0]);
        long seed = Long.parseLong(arguments[1]);
        double warmSeconds = Double.parseDouble(arguments[2]), seconds = Double.parseDouble(arguments[3]);
        CountDownLatch ready = new CountDownLatch(warehouses);
        Warehouse[] all = new Warehouse[warehouses];
        Thread[] threads = new Thread[warehouses];
        for (int at = 0; at < warehouses; at++) all[at] = new Warehouse(seed + at, ready);
        for (int at = 0; at < warehouses; at++) (threads[at] = new Thread(all[at])).start();
        ready.await();
        Thread.sleep((long) (warmSeconds * 1e3));
        long began = System.nanoTime(), uptime = java.lang.management.ManagementFactory.getRuntimeMXBean().getUptime();
        counting = true;
        Thread.sleep((long) (seconds * 1e3));
        counting = false;
        long took = System.nanoTime() - began;
        long uptimeAfter = java.lang.management.ManagementFactory.getRuntimeMXBean().getUptime();
        over = true;
        for (Thread thread : threads) thread.join();
        long counted = 0, checksum = 0;
        for (Warehouse one : all) {
            String wrong = one.wrong();
            if (wrong != null) {
                System.out.println("WRONG " + wrong);
                System.exit(1);
            }
            counted += one.counted;
            checksum += one.checksum;
        }
        long huge = 0;
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/smaps_rollup")))
            if (line.startsWith("AnonHugePages:") || line.startsWith("Private_Hugetlb:"))
                huge += Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
        System.out.println(String.format(Locale.ROOT,
            "{\"transactions\": %d, \"seconds\": %.6f, \"from_ms\": %d, \"to_ms\": %d, \"huge_bytes\": %d, "
                + "\"heap_bytes\": %d, \"checksum\": %d}",
            counted, took / 1e9, uptime, uptimeAfter, huge, Runtime.getRuntime().totalMemory(), checksum));
    }
}
