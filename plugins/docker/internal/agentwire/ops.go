package agentwire

// Op is what a request asks for. Beside each stand the request, what flows, and the answer.
type Op byte

const (
	OpStatus   Op = 1 + iota // Empty → Status; does not count as use
	OpRetire                 // Retire → Empty; the agent is about to exit
	OpListen                 // Listen → Empty
	OpStat                   // Path → Listing of one
	OpList                   // Path, entries → Listing
	OpMakeDir                // Path → Empty
	OpRemove                 // Path → Empty
	OpWalk                   // Walk, entries → Listing
	OpRead                   // Path, started (an Entry) and content unless in the answer → Content
	OpWrite                  // Write, content from the plugin → Listing of one
	OpRun                    // Run, inputs and stdin from the plugin, started, output, entries → Exit
	OpAttach                 // Attach, as OpRun → Exit
	OpKill                   // Name of a run → Empty
	OpTerminal               // Terminal, started (a Number), content both ways, size from the plugin → Number
	OpDial                   // Number, started, content both ways → Empty
	OpWatch                  // Watch, started, events → Empty
	OpControl                // Name of a run that makes calls, calls and withdrawals, replies from the plugin → Empty
)

// Channel tells apart what flows on one stream.
type Channel byte

const (
	ChanContent Channel = 1 + iota // data; a message is its end (ContentEnd)
	ChanStdout                     // data
	ChanStderr                     // data
	ChanInput                      // data; a message is the end of one input (InputEnd)
	ChanStarted                    // a message when it begins
	ChanEntries                    // messages: Listing
	ChanDeleted                    // messages: Names
	ChanEvents                     // messages: Event
	ChanSize                       // messages: Size
	ChanCall                       // messages: Call, each with its input on ChanContent
	ChanReply                      // messages: Reply, each with what it says on ChanContent
)

// Fault is an answer that is an error. Kind and Subject are words of sdk/backend.
type Fault struct{ Kind, Subject, Text string }

func (f *Fault) code(c *coder) { c.str(&f.Kind); c.str(&f.Subject); c.str(&f.Text) }
func (f *Fault) Error() string { return f.Text }

const (
	answerOK    = 0
	answerFault = 1
)

// Answer is the payload of a KindEnd frame: m, or f when that is not nil. An answer
// that is too long becomes a fault.
func Answer(m Message, f *Fault) []byte {
	if f == nil {
		if b := append([]byte{answerOK}, Encode(m)...); len(b) <= MaxEnd {
			return b
		}
		f = &Fault{Kind: "internal", Text: "the answer is too long"}
	}
	f.Text = f.Text[:min(len(f.Text), 4096)]
	return append([]byte{answerFault}, Encode(f)...)
}

// ReadAnswer reads what Answer made into m. A *Fault is returned as the error.
func ReadAnswer(b []byte, m Message) error {
	switch {
	case len(b) > 0 && b[0] == answerOK:
		return Decode(b[1:], m)
	case len(b) > 0 && b[0] == answerFault:
		f := new(Fault)
		if err := Decode(b[1:], f); err != nil {
			return err
		}
		return f
	}
	return protocolError("an answer of no kind")
}
