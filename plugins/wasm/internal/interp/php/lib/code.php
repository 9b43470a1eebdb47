<?php
// What `php -r` runs: source from the command line.
$_SERVER['CAISSON_CODE'] = getenv('CAISSON_CODE');
putenv('CAISSON_CODE');
unset($_ENV['CAISSON_CODE']);
$argv[0] = $_SERVER['argv'][0] = 'Standard input code';
eval((function () {
    $code = $_SERVER['CAISSON_CODE'];
    unset($_SERVER['CAISSON_CODE']);
    return $code;
})());
