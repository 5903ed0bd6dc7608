//! Other people's programs, with what of their output may differ between two runs.
//!
//! Where a program prints times, rates or numbers of processes, `varies` says so, and only lines that it names are left out.
//! A server is asked for its pages by the load engine, and what came of that is part of what it prints.

/// A program with its arguments, and what of its output may differ.
#[derive(Debug, Hash)]
pub struct Case {
    pub name: &'static str,
    pub program: &'static str,
    pub arguments: &'static [&'static str],
    /// Lines that contain one of these may differ.
    pub varies: &'static [&'static str],
    /// What must be there alongside the program.
    pub needs: &'static [&'static str],
    /// A script that is run natively in the program's folder before it; its time does not count.
    pub before: &'static str,
    /// Of a server: what the load engine requests, one page after the other. The server listens on 127.0.0.1 and the port `$PORT`, and ends when its
    /// standard input does.
    pub pages: &'static [Page],
}

/// A page of a server: a file in its folder that has its size as its name.
#[derive(Debug, Hash)]
pub struct Page {
    pub bytes: u64,
    pub requests: u64,
}

const fn case(name: &'static str, program: &'static str, arguments: &'static [&'static str]) -> Case {
    Case { name, program, arguments, varies: &[], needs: &[], before: "", pages: &[] }
}

/// A script for `sh` that needs other programs.
const fn script(name: &'static str, needs: &'static [&'static str], arguments: &'static [&'static str]) -> Case {
    Case { needs, ..case(name, "sh", arguments) }
}

/// A program in C, which is compiled before.
const fn compiled(name: &'static str, before: &'static str) -> Case {
    Case { needs: &["gcc"], before, ..case(name, "sh", &["-c", "exec ./program"]) }
}

/// nginx under load: `arguments` are the script with its name, what its configuration says of processes, and what it says of answers.
pub const fn nginx(name: &'static str, arguments: &'static [&'static str], pages: &'static [Page]) -> Case {
    Case { pages, before: PAGES_OF_NGINX, ..script(name, &["nginx"], arguments) }
}

/// Programs of every system.
pub const BASIC: &[Case] = &[
    case("sh", "sh", &["-c", "for i in 1 2 3; do echo $i | tr 123 abc; done; (exit 7); echo $?"]),
    case("ls", "ls", &["/usr"]),
    case("sha256sum", "sha256sum", &["/bin/sh"]),
    case("sort", "sh", &["-c", "seq 20000 | sort -r | tail -1"]),
    case("dd", "sh", &["-c", "dd if=/bin/sh bs=64k 2>/dev/null | md5sum"]),
    case("env", "env", &["-i", "A=1", "sh", "-c", "echo $A; env | wc -l"]),
    case("timeout", "timeout", &["-s", "INT", "0.3", "sleep", "600"]),
];

/// A dozen of the normal run.
pub const FEW: &[Case] = &[
    case(
        "bash",
        "bash",
        &["-c", "trap 'echo usr1' USR1; kill -USR1 $$; echo ${BASH##*/}; a=(1 2 3); echo ${a[@]}; exit 3"],
    ),
    case("ls", "ls", &["/etc/apt"]),
    case("sha256sum", "sha256sum", &["/bin/bash"]),
    case("gzip", "sh", &["-c", "gzip -nc /bin/bash | gzip -dc | cmp - /bin/bash && echo same"]),
    case("sort", "sh", &["-c", "seq 20000 | sort -r | tail -1"]),
    case("find", "find", &["/etc", "-maxdepth", "1", "-name", "pass*"]),
    case("awk", "awk", &["BEGIN { for (i = 0; i < 200000; i++) s += i; print s }"]),
    case(
        "perl",
        "perl",
        &[
            "-e",
            "print join(',', map { $_ * $_ } 1 .. 10), qq(\n); print `echo sub`; $SIG{ALRM} = sub { print qq(alarm\n) }; alarm 1; sleep 3;",
        ],
    ),
    case("python", "/usr/bin/python3", &["-c", PYTHON]),
    case("grep", "grep", &["-c", "root", "/etc/passwd"]),
    case("tar", "sh", &["-c", "tar cf - -C /etc apt 2>/dev/null | tar tf - | wc -l"]),
];

const PYTHON: &str = "import subprocess, threading, sys
print(subprocess.check_output(['echo', 'x']))
l = []
t = [threading.Thread(target=l.append, args=(i,)) for i in range(10)]
[x.start() for x in t]
[x.join() for x in t]
print(sorted(l))
try: subprocess.check_output(['/nonexistent'])
except FileNotFoundError as e: print(e)
sys.exit(5)";

/// What computes for seconds and makes few calls: its run time in the guest is to be at most [`LIMIT`] of that natively.
pub const CONTROLS: &[Case] = &[
    compiled("C integers", INTEGERS),
    compiled("C floating point", FLOATING),
    case(
        "openssl kdf",
        "openssl",
        &[
            "kdf",
            "-keylen",
            "32",
            "-kdfopt",
            "digest:SHA512",
            "-kdfopt",
            "pass:a",
            "-kdfopt",
            "salt:b",
            "-kdfopt",
            "iter:4000000",
            "PBKDF2",
        ],
    ),
    // By a seed of its hashes that is drawn for each run, its run time varies by 7 %.
    case("python loop", "env", &["PYTHONHASHSEED=0", "/usr/bin/python3", "-c", PYTHON_LOOP]),
    case("awk loop", "awk", &["BEGIN { for (i = 0; i < 60000000; i++) s += i; print s }"]),
];
const PYTHON_LOOP: &str = "s = 0\nfor i in range(60_000_000): s += i & 7\nprint(s)";
/// See [`CONTROLS`].
pub const LIMIT: f64 = 1.03;

/// The others, for `make soak-programs`.
pub const MANY: &[Case] = &[
    script("busybox", &["busybox"], &["-c", BUSYBOX]),
    script("clang", &["clang"], &["-c", CLANG]),
    Case {
        needs: &["gcc", STREAM_C],
        before: STREAM,
        varies: &[
            "clock granularity",
            "on the order of",
            "clock ticks)",
            "setup time",
            "Copy:",
            "Scale:",
            "Add:",
            "Triad:",
        ],
        ..case("stream.c", "sh", &["-c", "./program && if [ -e text ]; then cat text; fi"])
    },
    script("gcc", &["gcc"], &["-c", C]),
    script("g++", &["g++"], &["-c", CXX]),
    script("gcc -fopenmp", &["gcc"], &["-c", OPENMP]),
    script("ThreadSanitizer", &["gcc"], &["-c", TSAN]),
    script("AddressSanitizer", &["gcc"], &["-c", ASAN]),
    script("go build", &["go"], &["-c", GO]),
    script("cargo build", &["cargo"], &["-c", CARGO]),
    case("rustc", "rustc", &["--version"]),
    script("javac and java", &["javac", "java"], &["-c", JAVA]),
    script("java -Xint", &["javac", "java"], &["-c", JAVA_INTERPRETED]),
    case(
        "node",
        "node",
        &["-e", "let s=0;for(let i=0;i<5e6;i++)s+=i;console.log(s);setTimeout(()=>process.exit(6),5)"],
    ),
    script("redis", &["redis-server", "redis-cli"], &["-c", REDIS]),
    script("redis-benchmark", &["redis-server", "redis-benchmark"], &["-c", REDIS_BENCHMARK]),
    nginx("nginx, one process", ONE_PROCESS, PAGES),
    nginx("nginx, two workers", &["-c", NGINX, "nginx", "worker_processes 2;", "sendfile on;"], PAGES),
    script("memcached", &["memcached", "perl"], &["-c", MEMCACHED]),
    script("postgres --single", &["setpriv", "/usr/lib/postgresql/15/bin/postgres"], &["-c", POSTGRES]),
    script("postgres", &["setpriv", "psql", "/usr/lib/postgresql/15/bin/postgres"], &["-c", POSTGRES_SERVER]),
    script("fio", &["fio"], &["-c", FIO]),
    script(
        "sysbench",
        &["sysbench"],
        &["-c", "sysbench cpu --events=50 --time=0 --threads=2 run | grep 'number of events'"],
    ),
    case("stress-ng --cpu", "stress-ng", &["--cpu", "1", "--cpu-ops", "20", "-q"]),
    case("stress-ng --vm", "stress-ng", &["--vm", "1", "--vm-bytes", "16m", "--vm-ops", "50", "-q"]),
    case(
        "stress-ng --pipe --futex",
        "stress-ng",
        &["--pipe", "1", "--pipe-ops", "500", "--futex", "1", "--futex-ops", "200", "-q"],
    ),
    script("lammps", &["lmp"], &["-c", LAMMPS]),
    script("xz -T2", &["xz"], &["-c", "xz -T2 -1 -c /bin/bash | xz -dc | cmp - /bin/bash && echo same"]),
    script("zstd -T2", &["zstd"], &["-c", "zstd -T2 -qc /bin/bash | zstd -dqc | cmp - /bin/bash && echo same"]),
    script("bzip2", &["bzip2"], &["-c", "bzip2 -1c /bin/bash | bzip2 -dc | cmp - /bin/bash && echo same"]),
    case("openssl dgst", "openssl", &["dgst", "-sha512", "/bin/bash"]),
    case(
        "openssl enc",
        "openssl",
        &["enc", "-aes-256-cbc", "-pbkdf2", "-k", "x", "-S", "0011223344556677", "-in", "/etc/passwd", "-base64"],
    ),
    Case {
        varies: &["sha256", "version", "built on", "compiler", "CPUINFO", "options", "Doing", "type", "bn("],
        ..case("openssl speed", "openssl", &["speed", "-seconds", "1", "-bytes", "1024", "sha256"])
    },
    case(
        "sqlite3",
        "sqlite3",
        &[
            ":memory:",
            "create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where x<50000) insert into t select x from c; select sum(a), count(*) from t;",
        ],
    ),
    script("tclsh", &["tclsh"], &["-c", "echo 'puts [expr 6*7]; exit 2' | tclsh"]),
    case("jq", "jq", &["-n", "[range(1000)] | add"]),
    script("bc", &["bc"], &["-c", "echo 'scale=50; 4*a(1)' | bc -l"]),
    case("sed", "sed", &["-n", "1,3p", "/etc/passwd"]),
    case("file", "file", &["/bin/bash"]),
    case(
        "git",
        "sh",
        &[
            "-c",
            "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --format=%s",
        ],
    ),
    script("make", &["make"], &["-c", "printf 'a: b c\\n\\t@echo a\\nb c:\\n\\t@echo $@\\n' > Makefile; make -j1"]),
    script("curl", &["curl"], &["-c", "curl -s file:///etc/passwd | head -1"]),
    script("xxd", &["xxd"], &["-c", "xxd /bin/true | md5sum"]),
    case("diff", "diff", &["/etc/passwd", "/etc/group"]),
    script("m4", &["m4"], &["-c", "echo 'define(a,b)a' | m4"]),
    script("gpg", &["gpg"], &["-c", "gpg --version | head -1"]),
    case("dash", "dash", &["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i; kill -TERM $$"]),
    case("timeout", "timeout", &["-s", "INT", "0.3", "sleep", "5"]),
    case("xargs", "sh", &["-c", "seq 200 | xargs -n 20 -P 2 echo | sort | md5sum"]),
    case("dd", "sh", &["-c", "dd if=/bin/bash bs=64k 2>/dev/null | md5sum"]),
    case("env", "env", &["-i", "A=1", "sh", "-c", "echo $A; env | wc -l"]),
    case(
        "perl forks",
        "perl",
        &[
            "-e",
            "for (1..5) { if (fork == 0) { exit $_ } } while ((my $p = wait) > 0) { push @s, $? >> 8 } print join(q(,), sort @s), qq(\n); exec qw(sh -c), q(exit 9)",
        ],
    ),
    case(
        "python pool",
        "/usr/bin/python3",
        &[
            "-c",
            "import multiprocessing as m
if __name__ == '__main__':
    with m.Pool(2) as p: print(sum(p.map(abs, range(-100, 0))))",
        ],
    ),
    case(
        "python asyncio",
        "/usr/bin/python3",
        &[
            "-c",
            "import asyncio
async def f(i):
    await asyncio.sleep(0.01)
    return i
async def g(): print(sum(await asyncio.gather(*[f(i) for i in range(50)])))
asyncio.run(g())",
        ],
    ),
    case(
        "python signals",
        "/usr/bin/python3",
        &[
            "-c",
            "import ctypes, mmap, signal, os, resource
m = mmap.mmap(-1, 8192); m[5000] = 7; print(m[5000], ctypes.CDLL(None).abs(-3), flush=True)
signal.signal(signal.SIGALRM, lambda *a: print('alarm', flush=True))
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True); os.kill(os.getpid(), signal.SIGKILL)",
        ],
    ),
];

const INTEGERS: &str = r#"printf '#include <stdio.h>\nint main(){unsigned long x=1;for(long i=0;i<2000000000L;i++){x=x*6364136223846793005UL+i;x^=x>>29;}printf("%%lu\\n",x);}' > p.c
gcc -O2 p.c -o program"#;
const FLOATING: &str = r#"printf '#include <stdio.h>\nint main(int c,char**v){double x=c+1;for(long i=0;i<1500000000L;i++)x=x*0.999999999+1e-9;printf("%%.12f\\n",x);}' > p.c
gcc -O2 p.c -o program"#;
/// What a case needs that is no program: STREAM by its author, the file that $STREAM_C names or Debian's copy in a source of hpcc in the folder
/// $BAREMARK_PEERS.
pub const STREAM_C: &str = "stream.c";
/// Compiles it: 4,000,000 words in each array, ten passes. Debian's copy needs what `make bench` puts around it, and writes its text to a file.
const STREAM: &str = concat!(
    "around='",
    env!("CARGO_MANIFEST_DIR"),
    "/../baremark/examples/pairings/stream'\n",
    r#"if [ -n "$STREAM_C" ]; then exec gcc -O2 -fopenmp -w -DSTREAM_ARRAY_SIZE=4000000 "$STREAM_C" -o program; fi
for source in "$BAREMARK_PEERS"/hpcc-*/STREAM/stream.c; do :; done
exec gcc -O2 -fopenmp -w -DWORDS=4000000 '-DTEXT="text"' -I"$around" "$source" "$around/main.c" -lm -o program"#
);
const BUSYBOX: &str =
    "busybox seq 20000 | busybox sort -rn | busybox md5sum; busybox ls /etc/apt; busybox awk 'BEGIN { print 6 * 7 }'
busybox sh -c 'for i in 1 2 3; do busybox echo $i | busybox tr 123 abc; done; exit 4'";
const CLANG: &str = r#"printf '#include <stdio.h>\nint main(){printf("%%d\\n",6*7);return 5;}' > h.c
clang -O1 h.c -o h && sha256sum < h && ./h"#;
const C: &str = r#"printf '#include <stdio.h>\nint main(){double s=0;for(int i=1;i<1000000;i++)s+=1.0/i;printf("%%.12f\\n",s);return 3;}' > h.c
gcc -O1 h.c -o h && sha256sum < h && ./h"#;
const CXX: &str = r#"printf '#include <iostream>\n#include <map>\nint main(){std::map<int,int> m;for(int i=0;i<100;i++)m[i%%7]++;for(auto&p:m)std::cout<<p.second;try{throw 5;}catch(int i){std::cout<<i<<std::endl;}}' > a.cc
g++ -O1 a.cc -o a && ./a"#;
const OPENMP: &str = r#"printf '#include <stdio.h>\nint main(){double s=0;\n#pragma omp parallel for reduction(+:s)\nfor(int i=0;i<2000000;i++)s+=1;printf("%%.1f\\n",s);}' > o.c
gcc -O2 -fopenmp o.c -o o && ./o"#;
const TSAN: &str = r#"printf '#include <pthread.h>\n#include <stdio.h>\nstatic long n;static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER;static void*f(void*a){for(int i=0;i<2000;i++){pthread_mutex_lock(&m);n++;pthread_mutex_unlock(&m);}return 0;}int main(){pthread_t t[4];for(int i=0;i<4;i++)pthread_create(&t[i],0,f,0);for(int i=0;i<4;i++)pthread_join(t[i],0);printf("%%ld\\n",n);}' > t.c
gcc -O1 -pthread -fsanitize=thread t.c -o t && ./t"#;
const ASAN: &str = r#"printf '#include <stdlib.h>\n#include <stdio.h>\nint main(){int*p=malloc(40);p[3]=4;printf("%%d\\n",p[3]);free(p);}' > s.c
gcc -O1 -fsanitize=address s.c -o s && ASAN_OPTIONS=detect_leaks=0 ./s"#;
const GO: &str = r#"export GOCACHE=$PWD/c HOME=$PWD CGO_ENABLED=0 GOFLAGS=-p=1
printf 'package main\nimport ("fmt";"sync";"runtime")\nfunc main(){var wg sync.WaitGroup;c:=make(chan int,8);for i:=0;i<8;i++{wg.Add(1);go func(i int){defer wg.Done();c<-i}(i)};wg.Wait();close(c);n:=0;for i:=range c{n+=i};runtime.GC();func(){defer func(){fmt.Println(recover()!=nil)}();var p *int;*p=1}();fmt.Println(n)}' > m.go
go build -o m m.go && ./m"#;
const CARGO: &str = r#"mkdir src; printf '[package]\nname="a"\nversion="0.1.0"\nedition="2021"\n[workspace]\n' > Cargo.toml
echo 'fn main(){println!("{}",(1..=10u64).product::<u64>())}' > src/main.rs
env -u CARGO_TARGET_DIR cargo build -q --offline && ./target/debug/a"#;
const JAVA: &str = r#"printf 'public class H{public static void main(String[] a)throws Exception{long s=0;for(int i=0;i<20000000;i++)s+=i%%7;System.out.println(s);Thread t=new Thread(()->System.out.println("thread"));t.start();t.join();try{Object o=null;o.hashCode();}catch(NullPointerException e){System.out.println("npe");}System.gc();System.exit(4);}}' > H.java
javac H.java && java -XX:+UseSerialGC H"#;
const JAVA_INTERPRETED: &str = r#"printf 'public class I{public static void main(String[] a){long s=0;for(int i=0;i<2000000;i++)s+=i%%7;System.out.println(s);}}' > I.java
javac I.java && java -Xint -XX:+UseSerialGC I"#;
const REDIS: &str = r#"redis-server --port 0 --unixsocket $PWD/s --save '' >/dev/null 2>&1 & p=$!
until redis-cli -s s ping >/dev/null 2>&1; do sleep 0.05; done
redis-cli -s s set a 1; redis-cli -s s incr a; redis-cli -s s shutdown nosave; wait $p; echo $?"#;
const REDIS_BENCHMARK: &str = r#"redis-server --port 0 --unixsocket $PWD/s --save '' >/dev/null 2>&1 & p=$!
until redis-cli -s s ping >/dev/null 2>&1; do sleep 0.05; done
redis-benchmark -s s -n 500 -c 5 -q -t set,get | tr '\r' '\n' | grep -c 'requests per second'; redis-cli -s s shutdown nosave; wait $p; echo $?"#;
/// 20,000 requests.
const PAGES: &[Page] = &[
    Page { bytes: 1 << 10, requests: 12_000 },
    Page { bytes: 16 << 10, requests: 6_000 },
    Page { bytes: 256 << 10, requests: 2_000 },
];
const PAGES_OF_NGINX: &str = "for size in 1024 16384 262144; do head -c $size /dev/urandom > $size; done";
pub const ONE_PROCESS: &[&str] = &["-c", NGINX, "nginx", "master_process off;", ""];
const NGINX: &str = r#"printf "daemon off; $1 error_log stderr crit; pid $PWD/pid; user root; events {} http { access_log off; keepalive_requests 1000000; $2 client_body_temp_path $PWD/b; proxy_temp_path $PWD/p; fastcgi_temp_path $PWD/f; uwsgi_temp_path $PWD/u; scgi_temp_path $PWD/s; server { listen 127.0.0.1:$PORT; root $PWD; } }" > c
nginx -e stderr -c $PWD/c 2>/dev/null & p=$!
read end; kill -QUIT $p; wait $p; echo $?"#;
const MEMCACHED: &str = r#"memcached -u root -s $PWD/s -m 16 -t 2 >/dev/null 2>&1 & p=$!
perl -MIO::Socket::UNIX -e '
for (1 .. 500) { last if $s = IO::Socket::UNIX->new(Peer => "s"); select undef, undef, undef, 0.02 }
$s or die "memcached does not listen\n";
for my $i (1 .. 2000) { my $v = "$i," x ($i % 50 + 1); print $s "set k$i 0 0 " . length($v) . "\r\n$v\r\n"; $stored += <$s> eq "STORED\r\n" }
for my $i (1 .. 2000) {
    my ($v, $got) = ("$i," x ($i % 50 + 1), "");
    print $s "get k$i\r\n";
    while (defined(my $line = <$s>)) { $got .= $line; last if $line eq "END\r\n" }
    $same += $got eq "VALUE k$i 0 " . length($v) . "\r\n$v\r\nEND\r\n";
}
print "$stored stored, $same as stored\n";
print $s "set n 0 0 1\r\n5\r\nincr n 37\r\ndelete n\r\nget n\r\n"; print scalar <$s> for 1 .. 4;'
kill -TERM $p; wait $p; echo $?"#;
const POSTGRES: &str = r#"chmod 711 .; mkdir d; chown 65534 d; export LC_ALL=C HOME=/; u='setpriv --reuid=65534 --clear-groups'; b=/usr/lib/postgresql/15/bin
$u $b/initdb -N -D $PWD/d/db >/dev/null 2>&1
echo 'select sum(i) from generate_series(1,1000) i;' | $u $b/postgres --single -D $PWD/d/db postgres 2>/dev/null | grep sum"#;
const POSTGRES_SERVER: &str = r#"chmod 711 .; mkdir d; chown 65534 d; export LC_ALL=C HOME=/; u='setpriv --reuid=65534 --clear-groups'; b=/usr/lib/postgresql/15/bin
$u $b/initdb -N -D $PWD/d/db >/dev/null 2>&1
$u $b/postgres -D $PWD/d/db -c listen_addresses= -c unix_socket_directories=$PWD/d >/dev/null 2>&1 & p=$!
until $u psql -h $PWD/d -d postgres -Atc 'select 1' >/dev/null 2>&1; do sleep 0.1; done
$u psql -h $PWD/d -d postgres -Atc 'create table t(a int); insert into t select generate_series(1,1000); select sum(a) from t'
kill -INT $p; wait $p; echo $?"#;
const FIO: &str = r#"fio --name=a --directory=. --size=4m --rw=randrw --bs=4k --ioengine=psync --verify=crc32c --output-format=terse --terse-version=3 | cut -d';' -f3-5"#;
const LAMMPS: &str = r#"printf 'units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 4 0 4 0 4\ncreate_box 1 box\ncreate_atoms 1 box\nmass 1 1.0\nvelocity all create 1.44 87287\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\nfix 1 all nve\nthermo 50\nrun 100\n' > in
OMP_NUM_THREADS=1 lmp -in in -log none | grep '^ *[0-9]* *[0-9.]* *-[0-9.]* '"#;
