<?php
// Runs before every program and gives it what the command line has and a web
// server's PHP has not, and replaces what this build gets wrong.

define('STDIN', fopen('php://stdin', 'r'));
define('STDOUT', fopen('php://stdout', 'w'));
define('STDERR', fopen('php://stderr', 'w'));
chdir(getenv('PWD'));
$_SERVER['PHP_SELF'] = $_SERVER['SCRIPT_NAME'] = $_SERVER['SCRIPT_FILENAME'] = $_SERVER['PATH_TRANSLATED'] = $argv[0];
$_SERVER['DOCUMENT_ROOT'] = '';

// The build's own makes the same name each time.
function tempnam(string $directory, string $prefix): string|false
{
    if (!is_dir($directory)) {
        $directory = sys_get_temp_dir();
        trigger_error("tempnam(): file created in the system's temporary directory", E_USER_NOTICE);
    }
    for ($i = 0; $i < 100; $i++) {
        $name = rtrim($directory, '/') . '/' . substr(basename($prefix), 0, 63) . bin2hex(random_bytes(3));
        if ($f = @fopen($name, 'x')) {
            fclose($f);
            return $name;
        }
    }
    return false;
}

// The file stays until the run ends, and /tmp with it.
function tmpfile()
{
    $name = tempnam(sys_get_temp_dir(), 'php');
    return $name === false ? false : fopen($name, 'r+');
}

// The build's own do nothing and do not say so.

function exec(string $command, &$output = null, &$result_code = null): string|false
{
    trigger_error("exec(): this sandbox cannot start processes: $command", E_USER_WARNING);
    return false;
}

function shell_exec(string $command): string|false|null
{
    trigger_error("shell_exec(): this sandbox cannot start processes: $command", E_USER_WARNING);
    return false;
}

function system(string $command, &$result_code = null): string|false
{
    trigger_error("system(): this sandbox cannot start processes: $command", E_USER_WARNING);
    return false;
}

function passthru(string $command, &$result_code = null): ?false
{
    trigger_error("passthru(): this sandbox cannot start processes: $command", E_USER_WARNING);
    return false;
}

function popen(string $command, string $mode)
{
    trigger_error("popen(): this sandbox cannot start processes: $command", E_USER_WARNING);
    return false;
}

function mail(string $to, string $subject, string $message, array|string $additional_headers = [], string $additional_params = ''): bool
{
    trigger_error('mail(): this sandbox has no network', E_USER_WARNING);
    return false;
}

function gethostbyname(string $hostname): string|false
{
    return $hostname;
}
