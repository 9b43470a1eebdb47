# Runs one program in an interpreter that was booted before.
#
# The host evaluates this text once, keeps an image of the memory, and starts every
# run from a copy of the image by calling what the text returns. A run ends with
# exit!: nothing of the boot is returned to.
#
# What it does is what the command line `ruby FILE ARGS` would do, in the same order
# and with the same output. Its frames, of <internal:caisson>, are left out of what it
# prints itself.

handlers = []
at_exit = lambda do |&block|
  raise ArgumentError, "called without a block" unless block
  handlers << block
  block
end
# The build does not run its own handlers.
Kernel.module_eval do
  define_method(:at_exit) { |&block| at_exit.call(&block) }
  module_function :at_exit
end

# What programs require most is compiled at boot, but not evaluated: they must not
# find constants that they did not ask for. What there is of bundled gems is read as
# well; it else would be for each that is required.
compiled = {}
RubyVM::InstructionSequence.singleton_class.define_method(:load_iseq) { |path| compiled.delete(path) }
Gem::Specification.stubs
files = %w[
  English benchmark date delegate digest erb fileutils forwardable json logger open3 optparse ostruct pathname pp
  prettyprint psych random/formatter securerandom set shellwords singleton stringio strscan tempfile time timeout
  tmpdir tsort uri yaml
].flat_map do |feature|
  kind, path = $LOAD_PATH.resolve_feature_path(feature)
  kind == :rb ? [path, *Dir.glob(path.delete_suffix(".rb") + "/**/*.rb")] : []
end
%w[abbrev base64 csv matrix minitest observer prime].each do |gem|
  Gem::Specification.find_by_name(gem).full_require_paths.each { |dir| files.concat(Dir.glob(dir + "/**/*.rb")) }
end
files.each do |file|
  compiled[file] = RubyVM::InstructionSequence.compile_file_prism(file)
end

# The build returns true, or garbage, without having done anything.
no_processes = lambda do |command|
  Errno::ENOTSUP.new("this sandbox cannot start processes: #{command.grep(String).join(" ")}")
end
Kernel.module_eval do
  define_method(:system) do |*command, exception: false, **|
    raise no_processes.call(command) if exception
    warn("system: this sandbox cannot start processes: #{command.grep(String).join(" ")}")
  end
  %i[` spawn exec].each { |name| define_method(name) { |*command, **| raise no_processes.call(command) } }
  module_function :system, :`, :spawn, :exec
end
[[Process, %i[spawn exec]], [IO, %i[popen]]].each do |mod, names|
  names.each { |name| mod.define_singleton_method(name) { |*command, **, &_| raise no_processes.call(command.flatten) } }
end

# Files have neither owners nor modes here. Setting them succeeds and does nothing, so
# that what copies or moves files with all they have works.
{ chown: 2, lchown: 2, chmod: 1, lchmod: 1 }.each do |name, values|
  File.define_singleton_method(name) { |*args| args.drop(values).each { |file| File.lstat(file) }.size }
end

# The build waits for ever by asking again and again.
sleep = Kernel.method(:sleep).unbind
Kernel.module_eval do
  define_method(:sleep) do |*duration|
    next sleep.bind_call(Kernel, *duration) unless duration.empty? || duration == [nil]
    loop { sleep.bind_call(Kernel, 1_000_000) }
  end
  module_function :sleep
end

# Shows an exception as the interpreter would, without the frames of this text.
report = lambda do |error|
  begin
    text = error.full_message(highlight: false, order: :top)
  rescue Exception
    text = "#{error.backtrace&.first}: #{error.message} (#{error.class})\n"
  end
  text = text.b.gsub(/^\tfrom <internal:caisson>.*\n?/n, "").sub(/\A<internal:caisson>:\d+:in '.*?': /n, "")
  $stderr.write(text.force_encoding(Encoding::UTF_8))
end

# What an exception means as exit status; nil is none.
status = lambda do |error|
  case error
  when nil then 0
  when SystemExit then error.status
  when SignalException then 128 + error.signo
  else 1
  end
end

fail_start = lambda do |message|
  $stderr.puts("ruby: #{message}")
  exit!(1)
end

options = Struct.new(:script, :source, :libraries, :path)

parse = lambda do |argv|
  o = options.new(nil, nil, [], [])
  value = ->(rest, name) { rest.empty? ? argv.shift || fail_start.call("no argument given for #{name}") : rest }
  while argv[0]&.start_with?("-") && argv[0] != "-"
    arg = argv.shift
    case arg
    when "--" then break
    when /\A-I(.*)/m then o.path.concat(value.call($1, "-I").split(":"))
    when /\A-r(.*)/m then o.libraries << value.call($1, "-r")
    when /\A-e(.*)/m then o.source = [o.source, value.call($1, "-e")].compact.join("\n")
    when "-w", "-W", "-W2" then $VERBOSE = true
    when "-W1" then $VERBOSE = false
    when "-W0" then $VERBOSE = nil
    when /\A-W:(no-)?(\w+)\z/ then Warning[$2.to_sym] = !$1
    when "-v", "--version"
      puts RUBY_DESCRIPTION
      $VERBOSE = true if arg == "-v"
      exit!(0) if arg == "--version" || argv.empty?
    when /\A-(?:E|K|U|-enable|-disable|-encoding|-external-encoding)/ then next
    else fail_start.call("this sandbox does not know the option #{arg}")
    end
  end
  o.script = o.source ? "-e" : argv.shift
  o
end

# END blocks are handlers as well, which the build does not run.
end_blocks = lambda do |source|
  next source unless source.b.match?(/^\s*END\s*\{/n)
  require "ripper"
  lines = source.lines
  Ripper.lex(source).reverse_each do |(line, column), type, token|
    next unless type == :on_kw && token == "END"
    text = lines[line - 1].b
    text[column, 3] = "at_exit"
    lines[line - 1] = text.force_encoding(source.encoding)
  end
  lines.join
end

data = lambda do |source, path|
  at = source.b.index(/^__END__\r?\n|^__END__\z/n) or next
  file = File.open(path)
  file.seek(at + $&.bytesize)
  Object.const_set(:DATA, file)
end

load_program = lambda do |o|
  if o.script.nil? || o.script == "-"
    o.script = "-"
    o.source = $stdin.read
  end
  next RubyVM::InstructionSequence.compile_prism(o.source + "\n", o.script, nil) if o.source
  begin
    source = File.read(o.script, encoding: Encoding::UTF_8)
    path = File.realpath(o.script)
  rescue SystemCallError => e
    fail_start.call("#{e.message[/\A[^@]*/].strip} -- #{o.script} (LoadError)")
  end
  data.call(source, path)
  changed = end_blocks.call(source)
  next RubyVM::InstructionSequence.compile_prism(changed, o.script, path) unless changed.equal?(source)
  RubyVM::InstructionSequence.compile_file_prism(o.script)
end

finish = lambda do |error|
  code = status.call(error)
  while (handler = handlers.pop)
    begin
      handler.call
    rescue SystemExit => e
      code = e.status
      error = nil
    rescue Exception => e
      report.call(e)
      code = status.call(e)
    end
  end
  report.call(error) if error && !(SystemExit === error) && !(SignalException === error && error.signo != 2)
  code
end

read = lambda do |n|
  text = +"".b
  text << $stdin.sysread(n - text.bytesize) while text.bytesize < n
  text
end

# Writes what is in buffers of files that were left open. Looking for them takes a
# while, and is not needed where no file was opened: the build numbers them as they
# come.
opened = -> { File.open(File::NULL, &:fileno) }
flush = lambda do |before|
  $stdout.flush
  $stderr.flush
  next if before && opened.call <= before + 1
  ObjectSpace.each_object(IO) do |io|
    io.flush unless io.closed?
  rescue SystemCallError, IOError
    nil
  end
rescue SystemCallError, IOError
  nil
end

run = lambda do
  argc, *words = read.call(read.call(4).unpack1("V")).force_encoding(Encoding::UTF_8).split("\0", -1)
  argv = words.shift(argc.to_i)
  ENV.replace(words.each_slice(2).to_h)
  ENV["MT_CPU"] ||= "0" # minitest would start threads
  ARGV.replace(argv)
  srand
  $stdout.sync = true # what was printed before a kill is not lost
  code = 1
  before = nil
  begin
    Dir.chdir(ENV["PWD"] || "/")
    options = parse.call(ARGV)
    $0 = options.script || "-"
    $LOAD_PATH.unshift(*options.path.map { |p| File.expand_path(p) }, *ENV["RUBYLIB"].to_s.split(":"))
    options.libraries.each { |l| require l }
    program = load_program.call(options)
    before = opened.call unless Object.const_defined?(:DATA)
    program.eval
    code = finish.call(nil)
  rescue Exception => error
    code = finish.call(error) # here, so that handlers see it in $!
  end
  flush.call(before)
  exit!(code)
end

# Uses once what every run uses, so that first-use costs are in the image.
warm = lambda do
  RubyVM::InstructionSequence.compile("1.zero?", "warm", nil).eval
  begin
    Integer("x")
  rescue => e
    e.full_message(highlight: false, order: :top)
  end
  begin
    nil.warm
  rescue => e
    e.full_message(highlight: false, order: :top)
  end
end
warm.call
GC.start
run
