package main

import "regexp"

// rule is one pattern.
type rule struct {
	kind, name, message string
	// certain: ordinary programs do not do this.
	certain bool
	// languages that it is for; all when empty.
	languages []string
	// hints are words of which the text has one, or the pattern is not tried.
	hints []string
	// pattern is matched against text without comments; anywhere is inside of strings,
	// too.
	pattern  *regexp.Regexp
	anywhere bool
	// accept has a last word about a match; nil accepts.
	accept func(text string, m []int) bool
}

var (
	bash   = []string{"bash"}
	python = []string{"py"}
	script = []string{"js", "ts"}
	native = []string{"c", "cpp", "d", "rs", "go"}
)

func re(s string) *regexp.Regexp { return regexp.MustCompile(s) }

const (
	msgShell    = "a shell is given to somebody over the network"
	msgBomb     = "it starts copies of itself without end"
	msgWipe     = "it destroys what is not its own"
	msgEscape   = "it reaches for the machine that it runs on"
	msgMetadata = "it asks for the credentials of the machine"
	msgSecret   = "it reads the secrets of somebody"
	msgMiner    = "it mines"
	msgFetch    = "it runs what it fetches"
	msgHidden   = "it runs what is hidden in data"
	msgStay     = "it wants to be started again later"
	msgRoot     = "it wants rights that it does not have"
	msgKernel   = "it changes the kernel"
	msgScan     = "it looks for other machines"
	msgPeek     = "it works around the interpreter"
	msgMemory   = "it asks for more memory than there is"
)

// shell is the rest of a command that is a shell. A pattern does not begin with it:
// "sh" says the same there and is tried faster.
const shell = `(?:[\w/]*/)?(?:ba|z|da|k|c)?sh\b`

var rules = []rule{
	// Shells for somebody else.
	{"reverse_shell", "dev-tcp", msgShell, true, bash, []string{"/dev/tcp/", "/dev/udp/"}, re(`(?:<|>|<>|>&|&>)\s*/dev/(?:tcp|udp)/[^\s/]+/\S+`), false, nil},
	{"reverse_shell", "netcat-exec", msgShell, true, bash, []string{"nc", "netcat"}, re(`\b(?:nc|ncat|netcat)(?:\.\w+)?\b[^\n;|]*\s(?:-\w*[ec]\s*|--exec\s+|--sh-exec\s+)\S*(?:sh|cmd)\b`), false, nil},
	{"reverse_shell", "netcat-pipe", msgShell, true, bash, []string{"nc", "telnet"}, re(`sh\b[^\n;]*\|\s*(?:nc|ncat|netcat|telnet)\b|\b(?:nc|ncat|netcat|telnet)\b[^\n;|]*\|\s*` + shell), false, nil},
	{"reverse_shell", "socat", msgShell, true, bash, []string{"socat"}, re(`(?i)\bsocat\b[^\n]*\bexec:`), false, nil},
	{"reverse_shell", "openssl", msgShell, true, bash, []string{"s_client"}, re(`sh[^\n]*\|\s*openssl\s+s_client`), false, nil},
	{"reverse_shell", "python-dup2", msgShell, true, python, []string{"dup2"}, re(`socket[\s\S]*os\.dup2\(\s*\w+\.fileno\(\)`), false, nil},
	{"reverse_shell", "python-pty", msgShell, true, python, []string{"pty.spawn"}, re(`socket[\s\S]*\bpty\.spawn\(`), false, nil},
	{"reverse_shell", "python-popen", msgShell, true, python, []string{"fileno"}, re(`subprocess\.\w+\([^\n]*std(?:in|out)\s*=\s*\w+\.fileno\(\)`), false, nil},
	{"reverse_shell", "node", msgShell, true, script, []string{"child_process"}, re(`\.pipe\(\s*\w+\.stdin\s*\)`), false, hasAll("net", "child_process")},
	{"reverse_shell", "ruby", msgShell, true, []string{"rb"}, []string{"TCPSocket"}, re(`TCPSocket[\s\S]*\b(?:exec|spawn|IO\.popen)\b`), false, nil},
	{"reverse_shell", "perl", msgShell, true, []string{"pl"}, []string{"Socket"}, re(`Socket[\s\S]*\b(?:exec|system)\b`), false, nil},
	{"reverse_shell", "php", msgShell, true, []string{"php"}, []string{"fsockopen"}, re(`fsockopen[\s\S]*(?:proc_open|shell_exec|popen|exec)\s*\(`), false, nil},
	{"reverse_shell", "c", msgShell, true, native, []string{"dup2"}, re(`connect\s*\([\s\S]*dup2\s*\([\s\S]*exec[lv]\w*\s*\(`), false, nil},
	{"reverse_shell", "go", msgShell, true, []string{"go"}, []string{"net.Dial"}, re(`net\.Dial[\s\S]*\.Std(?:in|out)\s*=\s*\w*[cC]on\w*`), false, nil},
	{"reverse_shell", "java", msgShell, true, []string{"java"}, []string{"Socket"}, re(`new\s+Socket\s*\([\s\S]*(?:ProcessBuilder|getRuntime\(\)\.exec)|(?:ProcessBuilder|getRuntime\(\)\.exec)[\s\S]*new\s+Socket\s*\(`), false, nil},

	// Copies without end.
	{"fork_bomb", "shell", msgBomb, true, bash, []string{"()"}, re(`([\w:.]+)\s*\(\)\s*\{\s*([\w:.]+)\s*\|\s*([\w:.]+)\s*&`), false, sameNames},
	{"fork_bomb", "self", msgBomb, true, bash, []string{"$0"}, re(`\$0\s*\|\s*\$0\s*&|\bwhile\s+(?:true|:)\s*;\s*do\s+(?:bash\s+|sh\s+)?"?\$0"?\s*&`), false, nil},
	{"fork_bomb", "loop", msgBomb, true, nil, []string{"fork"}, re(`(?:while\s*\(?\s*(?:True|true|1)\s*\)?\s*:?|for\s*\(\s*;\s*;\s*\)|loop\s+do|loop\s*\{|for\s+\w+\s+in\s+itertools\.count\(\)\s*:)\s*\{?\s*(?:os\.|Process\.|pcntl_)?fork\b`), false, nil},
	{"fork_bomb", "while-fork", msgBomb, true, []string{"rb", "pl"}, []string{"fork"}, re(`\bfork\s+while\s+(?:fork|1|true)`), false, nil},

	// Disks and files of the system.
	{"destroys_data", "rm-root", msgWipe, true, bash, []string{"rm"}, re(`\brm\s+(?:-\S+\s+)*-\w*[rR]\S*\s+(?:-\S+\s+)*(?:/|/\*|~|~/|\$HOME/?|/(?:etc|usr|bin|boot|lib|home|root|var|mnt)/?\*?)(?:\s|;|&|\||\)|$)`), false, nil},
	{"destroys_data", "find-delete", msgWipe, true, bash, []string{"-delete"}, re(`\bfind\s+/\s[^\n;|]*-delete`), false, nil},
	{"destroys_data", "dd", msgWipe, true, bash, []string{"of=/dev/"}, re(`\bdd\b[^\n]*\bof=/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|mapper)`), false, nil},
	{"destroys_data", "mkfs", msgWipe, true, bash, []string{"mkfs", "wipefs", "shred"}, re(`\b(?:mkfs(?:\.\w+)?|wipefs|shred)\b[^\n]*\s/dev/\w+`), false, nil},
	{"destroys_data", "redirect", msgWipe, true, bash, []string{"/dev/"}, re(`>\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk)\w+`), false, nil},
	{"destroys_data", "python-rmtree", msgWipe, true, python, []string{"rmtree"}, re(`rmtree\(\s*['"]/(?:etc|usr|home|root|var)?/?['"]`), false, nil},
	{"destroys_data", "node-rm", msgWipe, true, script, []string{"rmSync", "rmdirSync", "fs.rm"}, re(`\brm(?:dir)?(?:Sync)?\(\s*['"]/(?:etc|usr|home|root|var)?/?['"]\s*,`), false, nil},

	// The machine below.
	{"host_access", "container-socket", msgEscape, true, nil, []string{"docker.sock", "containerd.sock", "crio.sock"}, re(`/(?:var/)?run/[\w/]*(?:docker|containerd|crio)\.sock`), true, nil},
	{"host_access", "first-process", msgEscape, true, nil, []string{"/proc/1/"}, re(`/proc/1/(?:root|ns|environ|cwd|fd|mem|maps)`), true, nil},
	{"host_access", "nsenter", msgEscape, true, bash, []string{"nsenter"}, re(`\bnsenter\b[^\n]*(?:-t|--target)[ =]?1\b`), false, nil},
	{"host_access", "release-agent", msgEscape, true, nil, []string{"release_agent"}, re(`\brelease_agent\b`), true, nil},
	{"host_access", "proc-files", msgEscape, true, nil, []string{"/proc/sys", "uevent_helper"}, re(`/proc/sysrq-trigger|/proc/sys/kernel/(?:core_pattern|modprobe)|/sys/kernel/uevent_helper`), true, nil},
	{"host_access", "memory", msgEscape, true, nil, []string{"mem", "kcore"}, re(`/dev/k?mem\b|/proc/kcore\b`), true, nil},
	{"host_access", "chroot", msgEscape, true, bash, []string{"chroot"}, re(`\bchroot\s+/(?:host|mnt/host|proc/\S+)`), false, nil},
	{"metadata_access", "address", msgMetadata, true, nil, []string{"169.254.", "metadata.google", "100.100.100.200", "fd00:ec2", "2852039166", "0xa9fea9fe"}, re(`\b169\.254\.169\.254\b|\b169\.254\.170\.2\b|metadata\.google\.internal|\b100\.100\.100\.200\b|fd00:ec2::254|\b2852039166\b|0xa9fea9fe`), true, nil},

	// Secrets.
	{"reads_secrets", "accounts", msgSecret, true, nil, []string{"shadow", "sudoers"}, re(`/etc/(?:g?shadow|sudoers)\b`), true, nil},
	{"reads_secrets", "keys", msgSecret, true, nil, []string{".ssh", ".aws", ".kube", ".gnupg", "gcloud", ".docker/config"}, re(`\.ssh/(?:id_\w+|authorized_keys|\*)|\.aws/credentials|\.kube/config|\.gnupg/|gcloud/(?:credentials|application_default)|\.docker/config\.json`), true, nil},
	{"reads_secrets", "cluster", msgSecret, true, nil, []string{"kubernetes.io"}, re(`/var/run/secrets/kubernetes\.io`), true, nil},
	{"reads_secrets", "environment", msgSecret, true, nil, []string{"/environ"}, re(`/proc/(?:self|\d+|\*|\$\w+|\{\w+\})/environ`), true, nil},
	{"reads_secrets", "browser", msgSecret, true, nil, []string{"Login Data", "logins.json", "wallet.dat"}, re(`/Login Data\b|\blogins\.json\b|\bwallet\.dat\b`), true, nil},

	// Other people's processor time.
	{"mines", "pool", msgMiner, true, nil, []string{"stratum"}, re(`stratum\+(?:tcp|ssl|tls)://`), true, nil},
	{"mines", "program", msgMiner, true, nil, []string{"xmrig", "minerd", "cpuminer", "ccminer", "nbminer", "coinhive"}, re(`\b(?:xmrig|minerd|cpuminer|ccminer|nbminer|coinhive)\b`), true, nil},

	// Code that is not in the program.
	{"fetches_code", "pipe", msgFetch, true, bash, []string{"curl", "wget"}, re(`\b(?:curl|wget)\b[^\n;]*\|\s*(?:sudo\s+(?:-\S+\s+)*)?(?:` + shell + `|python\d?|perl|node|ruby)\b`), false, nil},
	{"fetches_code", "substitution", msgFetch, true, bash, []string{"curl", "wget"}, re(`(?:sh|source|eval|\.)\s+(?:-c\s+)?["']?(?:<\(|\$\(|` + "`" + `)\s*(?:curl|wget)\b`), false, nil},
	{"fetches_code", "file", msgFetch, true, bash, []string{"chmod"}, re(`\b(?:curl|wget)\b[^\n]*(?:;|&&|\n)\s*chmod\s+(?:\+x|[0-7]*[1357][0-7]*)\s+\S+\s*(?:;|&&|\n)\s*(?:\./|/tmp/|/var/tmp/|/dev/shm/)`), false, nil},
	{"fetches_code", "python", msgFetch, true, python, []string{"exec(", "eval("}, re(`\b(?:exec|eval)\(\s*(?:requests\.|urllib\.|urlopen|httpx\.|compile\(\s*(?:requests|urllib))`), false, nil},
	{"fetches_code", "javascript", msgFetch, true, script, []string{"fetch(", "http"}, re(`\b(?:eval|new\s+Function|Function)\s*\(\s*\(?\s*await\s*\(?\s*(?:await\s+)?fetch\(`), false, nil},
	{"fetches_code", "php", msgFetch, true, []string{"php"}, []string{"http"}, re(`\b(?:eval|assert|include|require)(?:_once)?\s*\(?\s*(?:file_get_contents\s*\(\s*)?['"]https?://`), false, nil},
	{"hidden_code", "python", msgHidden, true, python, []string{"exec", "eval"}, re(`\b(?:exec|eval)\(\s*(?:compile\(\s*)?(?:__import__\(['"]\w+['"]\)|base64|zlib|codecs|marshal|binascii|bytes)\s*\.\s*(?:b\d\ddecode|decompress|decode|loads|unhexlify|fromhex)`), false, nil},
	{"hidden_code", "python-name", msgHidden, true, python, []string{"__import__", "getattr"}, re(`(?:__import__\(|getattr\(\s*__builtins__\s*,)\s*(?:['"]\w+['"]\s*\+|base64|bytes|chr\(|['"]\w+['"]\[::-1\])`), false, nil},
	{"hidden_code", "javascript", msgHidden, true, script, []string{"eval", "Function"}, re(`\b(?:eval|Function)\s*\(\s*(?:atob\(|Buffer\.from\(|unescape\(|String\.fromCharCode\()`), false, nil},
	{"hidden_code", "php", msgHidden, true, []string{"php"}, []string{"eval", "assert"}, re(`\b(?:eval|assert)\s*\(\s*(?:base64_decode|gzinflate|gzuncompress|str_rot13|hex2bin|\$_(?:GET|POST|REQUEST|COOKIE))`), false, nil},
	{"hidden_code", "shell", msgHidden, true, bash, []string{"base64", "xxd"}, re(`\b(?:base64\s+(?:-\w*[dD]|--decode)|xxd\s+-r\b)[^\n;]*\|\s*(?:` + shell + `|python\d?|perl)`), false, nil},
	{"hidden_code", "shell-eval", msgHidden, true, bash, []string{"base64", "xxd"}, re(`\b(?:eval|(?:ba|z|da|k|c)?sh\s+-c)\s+["']?(?:\$\(|` + "`" + `)[^\n)]*(?:base64\s+(?:-\w*[dD]|--decode)|xxd\s+-r)`), false, nil},
	{"hidden_code", "ruby", msgHidden, true, []string{"rb"}, []string{"eval"}, re(`\beval\s*\(?\s*(?:Base64\.|\[?['"][^'"]*['"]\]?\.(?:unpack|pack))`), false, nil},

	// Staying.
	{"persistence", "cron", msgStay, true, bash, []string{"cron"}, re(`\|\s*crontab\b|\bcrontab\s+(?:-\s|-$|/|[\w.]+)|>\s*/(?:etc|var/spool)/cron`), false, nil},
	{"persistence", "service", msgStay, true, bash, []string{"systemctl", "systemd"}, re(`\bsystemctl\s+(?:\S+\s+)*enable\b|>\s*/(?:etc|lib)/systemd/`), false, nil},
	{"persistence", "profile", msgStay, true, bash, []string{"rc", "profile"}, re(`>>?\s*(?:~|\$HOME|/root|/home/\w+|/etc)/\.?(?:bashrc|profile|bash_profile|zshrc|rc\.local|ld\.so\.preload)\b`), false, nil},
	{"persistence", "accounts", msgStay, true, bash, []string{"/etc/passwd", "useradd", "adduser", "chpasswd"}, re(`>>?\s*/etc/passwd\b|\buseradd\s|\badduser\s|\|\s*chpasswd\b`), false, nil},
	{"persistence", "python", msgStay, true, python, []string{"/etc/"}, re(`open\(\s*['"]/etc/(?:cron[\w./-]*|passwd|rc\.local|ld\.so\.preload|profile)['"]\s*,\s*['"][wa]`), false, nil},

	// Rights.
	{"gains_rights", "setuid-file", msgRoot, true, bash, []string{"chmod"}, re(`\bchmod\s+(?:-\S+\s+)*(?:[ug]*\+\w*s\w*|[2467]\d{3})\s`), false, nil},
	{"gains_rights", "capabilities", msgRoot, true, bash, []string{"setcap"}, re(`\bsetcap\s+\S*cap_`), false, nil},
	{"gains_rights", "setuid", msgRoot, true, append([]string{"py"}, native...), []string{"setuid"}, re(`\bset(?:re|res|e)?uid\s*\(\s*0\b`), false, nil},
	{"gains_rights", "sudo", msgRoot, false, bash, []string{"sudo", "su "}, re(`(?m)(?:^|[;&|(]\s*)\s*(?:sudo|su\s+(?:-|root))\s`), false, nil},
	{"changes_kernel", "module", msgKernel, true, bash, []string{"insmod", "modprobe", "sysctl"}, re(`\b(?:insmod|modprobe)\s+\S+|\bsysctl\s+-w\b`), false, nil},
	{"changes_kernel", "call", msgKernel, true, native, []string{"init_module", "unshare", "setns"}, re(`\b(?:init_module|finit_module|SYS_(?:f?init_module|kexec_load|bpf))\b`), false, nil},

	// What is only odd.
	{"scans_network", "program", msgScan, false, bash, []string{"nmap", "masscan", "zmap"}, re(`\b(?:nmap|masscan|zmap)\s+\S`), false, nil},
	{"scans_network", "loop", msgScan, false, python, []string{"connect_ex"}, re(`for\s+\w+\s+in\s+range\([^\n]*\)\s*:[\s\S]{0,300}connect_ex\(`), false, nil},
	{"works_around", "subclasses", msgPeek, false, python, []string{"__subclasses__"}, re(`__(?:bases?|mro)__[\s\S]{0,60}__subclasses__\(`), true, nil},
	{"works_around", "syscall", msgPeek, false, python, []string{"ctypes"}, re(`\.syscall\(`), false, hasAll("ctypes")},
	{"works_around", "preload", msgPeek, false, bash, []string{"LD_PRELOAD"}, re(`\bLD_PRELOAD=\S`), false, nil},
	{"works_around", "node-binding", msgPeek, false, script, []string{"process.binding", "constructor.constructor"}, re(`process\.binding\(|constructor\.constructor\(`), false, nil},
	{"exhausts_memory", "python", msgMemory, false, python, []string{"**"}, re(`(?:\]|['"]|\bbytearray\(|\bbytes\()\s*\*?\s*\(?\s*(?:10|1024|2)\s*\*\*\s*(?:9|[1-9]\d)\b`), false, nil},
	{"exhausts_memory", "shell", msgMemory, false, bash, []string{"/dev/zero", "yes"}, re(`\btail\s+/dev/zero|\b(?:cat|head)\s+/dev/zero\s*\|\s*(?:tail|sort)|\byes\s*\|\s*(?:tail|sort)\b`), false, nil},
}

// hasAll accepts a match in a text that has all words.
func hasAll(words ...string) func(string, []int) bool {
	patterns := make([]*regexp.Regexp, len(words))
	for i, w := range words {
		patterns[i] = re(`\b` + w + `\b`)
	}
	return func(text string, _ []int) bool {
		for _, p := range patterns {
			if !p.MatchString(text) {
				return false
			}
		}
		return true
	}
}

// sameNames accepts a function that calls itself twice.
func sameNames(text string, m []int) bool {
	name := text[m[2]:m[3]]
	return name == text[m[4]:m[5]] && name == text[m[6]:m[7]]
}
